// The worker: computes scores and maps with onnxruntime-web, and paints the maps, as `video/region.py` and
// `view/painting.py` do; the constants come with the page.

let about = null; // what the page says of the file
let session = null;
let ort = null;
let peak = 0; // see `Scale` there

onmessage = ({ data }) => (data.about ? start(data) : explain(data))
  .catch((error) => ({ problem: String(error.message ?? error) }))
  .then((answer) => postMessage(answer));

async function start(given) {
  about = given.about;
  const graph = await loaded(new URL(about.graph.name, given.base), about.graph);
  const adapter = await navigator.gpu?.requestAdapter();
  if (adapter && !(adapter.info ?? adapter).isFallbackAdapter) {
    try {
      await open("webgpu", given.base, graph);
      return { device: "WebGPU" };
    } catch { /* what a graphics card cannot do, or does wrong, the processor does */ }
  }
  await open("wasm", given.base, graph);
  return { device: `WebAssembly, threads: ${ort.env.wasm.numThreads || 1}` };
}

async function open(way, base, graph) {
  const from = new URL(about.runtime.base, base);
  const [library, glue, binary] = await Promise.all(about.runtime[way].map((one) => loaded(new URL(one.name, from), one)));
  const script = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  ort = await import(script(library));
  Object.assign(ort.env.wasm, { wasmPaths: { mjs: script(glue) }, wasmBinary: binary });
  session = await ort.InferenceSession.create(new Uint8Array(graph), { executionProviders: [way], logSeverityLevel: 3 });
  const { best, score, magnitude } = about.check;
  const { scores, relevance } = await compute(new Uint8Array(about.size[0] * about.size[1] * 3).map((_, n) => n >> 5));
  const differences = [Math.abs(scores[best] - score) - 0.02 * Math.abs(score) - 0.01, Math.abs(total(relevance) - magnitude) - 0.05 * magnitude];
  if (!differences.every((one) => one <= 0)) throw new Error("This device computes another map than it should.");
}

/** The bytes of a file with a known checksum; the query is another one where the file is. */
async function loaded(url, { integrity }) {
  const response = await fetch(`${url}?${encodeURIComponent(integrity.slice(7, 15))}`, { integrity }).catch(() => null);
  if (!response?.ok) throw new Error(`${url} ${response ? "is not there" : "cannot be reached, or is not the file that it was"}.`);
  return response.arrayBuffer();
}

async function compute(picture, target) {
  const inputs = { picture: new ort.Tensor("uint8", picture, [1, ...about.size, 3]) };
  if (!about.target) inputs.target = new ort.Tensor("float32", about.names.map((_, n) => Number(n === target)), [about.names.length]);
  const { scores, relevance, account } = await session.run(inputs);
  return { scores: scores.data, relevance: relevance.data, account: account.data };
}

/** Scores and painted map of a picture; `anew` where its scale follows no earlier one. */
async function explain({ bitmap, target, anew }) {
  const began = performance.now();
  const [{ box, inner }, { width, height }] = [regionOf(bitmap), bitmap];
  const { scores, relevance, account } = await compute(extracted(bitmap, box, inner), target);
  if (![...scores, ...account, total(relevance)].every(Number.isFinite)) throw new Error("The network computes NaN or Inf of this picture.");
  if (anew) peak = 0;
  const fade = about.fades ? Math.min(1, Math.abs(account[0]) / about.painter.tiny) : 1;
  const layers = painted(relevance, inner, fade);
  const place = box.map((one, n) => one / (n % 2 ? height : width));
  return { scores, relevance, target, box: place, faded: fade < 1, ...layers, ms: performance.now() - began };
}

const total = (values) => values.reduce((sum, one) => sum + Math.abs(one), 0);

/** The region that the network sees, and its place in the input: x0, y0, x1, y1. */
function regionOf({ width, height }) {
  const [rows, columns] = about.size;
  const scale = (about.fit === "crop" ? Math.min : Math.max)(height / rows, width / columns);
  const inner = about.fit === "letterbox" ? centred(height / scale, width / scale, rows, columns) : [0, 0, columns, rows];
  return { box: centred(rows * scale, columns * scale, height, width), inner };
}

function centred(height, width, rows, columns) {
  const [h, w] = [[height, rows], [width, columns]].map(([one, most]) => Math.min(Math.max(Math.round(one), 1), most));
  const [x, y] = [Math.floor((columns - w) / 2), Math.floor((rows - h) / 2)];
  return [x, y, x + w, y + h];
}

/** The network's input: the region of a picture, shrunk by averaging, as RGB; closes the picture. */
function extracted(bitmap, [left, top, right, bottom], [x0, y0, x1, y1]) {
  const [w, h] = [right - left, bottom - top];
  const context = new OffscreenCanvas(w, h).getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, -left, -top);
  bitmap.close();
  const { data } = context.getImageData(0, 0, w, h);
  const result = new Uint8Array(about.size[0] * about.size[1] * 3).fill(128);
  const low = mixed({ values: data, h, w: 4 * w }, 0, shares(h, y1 - y0));
  const across = shares(w, x1 - x0);
  for (let c = 0; c < 3; c += 1) {
    const small = mixed(low, 1, across.map(({ pixels, weights }) => ({ pixels: pixels.map((k) => 4 * k + c), weights })));
    small.values.forEach((value, n) => {
      const [y, x] = [Math.floor(n / small.w) + y0, (n % small.w) + x0];
      result[3 * (y * about.size[1] + x) + c] = Math.round(value);
    });
  }
  return result;
}

/** The pixels that make each of `to` pixels out of `from`: averaged where it shrinks, else interpolated. */
function shares(from, to) {
  const scale = from / to;
  return Array.from({ length: to }, (_, n) => {
    const middle = Math.min(Math.max((n + 0.5) * scale - 0.5, 0), from - 1);
    const [low, high] = scale < 1 ? [middle, middle + 1] : [n * scale, (n + 1) * scale];
    const pixels = Array.from({ length: Math.ceil(high - 1e-6) - Math.floor(low + 1e-6) }, (__, k) => Math.floor(low + 1e-6) + k);
    const weights = pixels.map((k) => (Math.min(k + 1, high) - Math.max(k, low)) / (high - low));
    return { pixels: Int32Array.from(pixels, (k) => Math.min(k, from - 1)), weights: Float32Array.from(weights) };
  });
}

/** Weighted sums of pixels along an axis, 0 for rows; the largest one with `most`. */
function mixed({ values, h, w }, axis, parts, most = false) {
  const [rows, columns, step] = axis ? [h, parts.length, 1] : [parts.length, w, w];
  const result = new Float32Array(rows * columns);
  for (let y = 0, n = 0; y < rows; y += 1) {
    for (let x = 0; x < columns; x += 1, n += 1) {
      const { pixels, weights } = parts[axis ? x : y];
      const first = axis ? y * w : x;
      let mixture = 0;
      for (let k = 0; k < pixels.length; k += 1) {
        const value = weights[k] * values[first + step * pixels[k]];
        mixture = most ? Math.max(mixture, value) : mixture + value;
      }
      result[n] = mixture;
    }
  }
  return { values: result, h: rows, w: columns };
}

/** The pixels around each of `size`; beyond the edge they are mirrored, with the edge itself or without. */
function around(size, weights, edge) {
  const mirrored = (at) => (at < 0 ? -at - edge : at < size ? at : 2 * size - 2 + edge - at);
  return Array.from({ length: size }, (_, n) => ({
    pixels: Int32Array.from(weights, (__, k) => Math.min(Math.max(mirrored(n + k - Math.floor(weights.length / 2)), 0), size - 1)),
    weights: Float32Array.from(weights),
  }));
}

/** The two layers of a map: `grey` takes colours from the picture, `glow` is laid over it. */
function painted(relevance, [x0, y0, x1, y1], fade) {
  const { painter, colours, signed, windows, size: [h, w] } = about;
  const smooth = mixed(mixed({ values: relevance, h, w }, 0, around(h, windows[0], 1)), 1, around(w, windows[1], 1)).values;
  const sorted = smooth.map(Math.abs).sort();
  const scale = sorted[Math.floor(painter.percentile / 100 * (sorted.length - 1))] || sorted.at(-1);
  const now = scale / total(relevance) || 0;
  const smoothed = peak ? painter.smoothing * peak + (1 - painter.smoothing) * now : now;
  peak = Math.min(Math.max(smoothed, now / painter.most), now * painter.most);
  const factor = (fade * now / peak || 0) ** painter.softness;
  const alpha = { values: new Float32Array((y1 - y0) * (x1 - x0)), h: y1 - y0, w: x1 - x0 };
  const strength = alpha.values.map((_, n) => {
    const value = smooth[(Math.floor(n / alpha.w) + y0) * w + x0 + (n % alpha.w)];
    return Math.min(Math.min(Math.abs(value) / (scale || 1), 1) ** painter.softness * factor, 1) * Math.sign(value);
  });
  alpha.values = strength.map((one) => painter.opacity * Math.max(signed ? Math.abs(one) : one, 0));
  const toned = tone(alpha);
  const [grey, glow] = [new ImageData(alpha.w, alpha.h), new ImageData(alpha.w, alpha.h)];
  strength.forEach((one, n) => {
    const left = 1 - toned[n] * (1 - painter.grey); // of the picture's brightness
    const covers = 1 - (1 - alpha.values[n]) * left;
    const entry = Math.round(Math.max(signed ? one * 127.5 + 127.5 : one * 255, 0));
    for (let c = 0; c < 3; c += 1) glow.data[4 * n + c] = colours[3 * entry + c] * (alpha.values[n] / Math.max(covers, 1e-6));
    glow.data[4 * n + 3] = Math.round(255 * covers);
    grey.data[4 * n + 3] = Math.round(255 * toned[n] * painter.grey / left);
  });
  return { grey, glow };
}

/** How far the picture is toned down around a map. */
function tone(alpha) {
  const { halo, needed, muted } = about.painter;
  const side = Math.max(1, Math.round(Math.max(alpha.h, alpha.w) * halo));
  const axes = [0, 1].map((axis) => [axis, axis ? alpha.w : alpha.h]);
  const nearest = axes.reduce((all, [axis, size]) => mixed(all, axis, around(size, Array(5).fill(1), 1), true), alpha);
  const near = [...axes, ...axes].reduce((all, [axis, size]) => mixed(all, axis, around(size, Array(side).fill(1 / side), 0)), nearest);
  const base = muted * Math.min(1, alpha.values.reduce((a, b) => Math.max(a, b), 0) / needed);
  return near.values.map((one) => base + (1 - base) * Math.min(one / needed, 1));
}
