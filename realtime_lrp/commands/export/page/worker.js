// The worker: computes scores and maps with onnxruntime-web, and paints the maps, as `video/region.py` and
// `view/painting.py` do; the constants come with the page.

const THREADS = globalThis.crossOriginIsolated ? Math.min(Math.max(navigator.hardwareConcurrency - 1, 1), 4) : 1; // a core is the page's

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
  return { device: `WebAssembly, threads: ${THREADS}` };
}

async function open(way, base, graph) {
  const from = new URL(about.runtime.base, base);
  const [library, glue, binary] = await Promise.all(about.runtime[way].map((one) => loaded(new URL(one.name, from), one)));
  const script = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  ort = await import(script(library));
  Object.assign(ort.env.wasm, { wasmPaths: { mjs: script(glue) }, wasmBinary: binary, numThreads: THREADS });
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

/** Scores and painted map of a picture; `anew` where its scale follows no earlier one. Says before it paints that it is free. */
async function explain({ bitmap, target, anew }) {
  const began = performance.now();
  const [{ box, inner }, { width, height }] = [regionOf(bitmap), bitmap];
  const { scores, relevance, account } = await compute(extracted(bitmap, box, inner), target);
  postMessage({ free: true });
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
  const low = mixed(context.getImageData(0, 0, w, h).data, h, 4 * w, shares(h, y1 - y0));
  const small = mixed(low, w, 4, shares(w, x1 - x0));
  const result = new Uint8Array(about.size[0] * about.size[1] * 3).fill(128);
  for (let y = y0, n = 0; y < y1; y += 1) {
    for (let x = x0, m = 3 * (y * about.size[1] + x0); x < x1; x += 1, n += 4, m += 3) {
      for (let c = 0; c < 3; c += 1) result[m + c] = Math.round(small[n + c]);
    }
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

/** Weighted sums along the middle axis of values [any, size, inner], one for each of `parts`; the largest terms with `most`. */
function mixed(values, size, inner, parts, most = false) {
  const result = new Float32Array(values.length / size * parts.length);
  const [length, step, stride] = [values.length, size * inner, parts.length * inner];
  for (let n = 0; n < parts.length; n += 1) {
    const { pixels, weights } = parts[n];
    for (let k = 0; k < pixels.length; k += 1) {
      const weight = weights[k];
      for (let from = pixels[k] * inner, to = n * inner; from < length; from += step, to += stride) {
        for (let i = 0; i < inner; i += 1) {
          const term = weight * values[from + i];
          if (!most) result[to + i] += term;
          else if (term > result[to + i]) result[to + i] = term;
        }
      }
    }
  }
  return result;
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
  const smooth = mixed(mixed(relevance, h, w, around(h, windows[0], 1)), w, 1, around(w, windows[1], 1));
  const sorted = smooth.map(Math.abs).sort();
  const scale = sorted[Math.floor(painter.percentile / 100 * (sorted.length - 1))] || sorted.at(-1);
  const now = scale / total(relevance) || 0;
  const smoothed = peak ? painter.smoothing * peak + (1 - painter.smoothing) * now : now;
  peak = Math.min(Math.max(smoothed, now / painter.most), now * painter.most);
  const factor = (fade * now / peak || 0) ** painter.softness;
  const [rows, columns] = [y1 - y0, x1 - x0];
  const strength = new Float32Array(rows * columns).map((_, n) => {
    const value = smooth[(Math.floor(n / columns) + y0) * w + x0 + (n % columns)];
    return Math.min(Math.min(Math.abs(value) / (scale || 1), 1) ** painter.softness * factor, 1) * Math.sign(value);
  });
  const alpha = strength.map((one) => painter.opacity * Math.max(signed ? Math.abs(one) : one, 0));
  const toned = tone(alpha, rows, columns);
  const [grey, glow] = [new ImageData(columns, rows), new ImageData(columns, rows)];
  strength.forEach((one, n) => {
    const left = 1 - toned[n] * (1 - painter.grey); // of the picture's brightness
    const covers = 1 - (1 - alpha[n]) * left;
    const entry = Math.round(Math.max(signed ? one * 127.5 + 127.5 : one * 255, 0));
    for (let c = 0; c < 3; c += 1) glow.data[4 * n + c] = colours[3 * entry + c] * (alpha[n] / Math.max(covers, 1e-6));
    glow.data[4 * n + 3] = Math.round(255 * covers);
    grey.data[4 * n + 3] = Math.round(255 * toned[n] * painter.grey / left);
  });
  return { grey, glow };
}

/** How far the picture is toned down around a map. */
function tone(alpha, rows, columns) {
  const { halo, needed, muted } = about.painter;
  const side = Math.max(1, Math.round(Math.max(rows, columns) * halo));
  const axes = [[rows, columns], [columns, 1]];
  const nearest = axes.reduce((all, [size, inner]) => mixed(all, size, inner, around(size, Array(5).fill(1), 1), true), alpha);
  const near = [...axes, ...axes].reduce((all, [size, inner]) => mixed(all, size, inner, around(size, Array(side).fill(1 / side), 0)), nearest);
  const base = muted * Math.min(1, alpha.reduce((a, b) => Math.max(a, b), 0) / needed);
  return near.map((one) => base + (1 - base) * Math.min(one / needed, 1));
}
