// The page of an exported explanation: shows a camera or a picture with its map, and the answers. The
// worker computes; nothing is sent anywhere.
import { openVideo, whyNoCamera } from "./device.js";
import { made, showBlocks } from "./figures.js";
import { follow, greyOf } from "./following.js";
import { timestamp } from "./recording.js";

const KEPT = 0.7; // share of the previous scores that stays with each new picture of a camera
const TOP = 5; // classes with a row, besides those that were chosen
const RENEW_MS = 250; // how often texts are renewed
const METER_MS = 2000;
const RELOADED = "realtime_lrp reloaded";

const at = (id) => document.getElementById(id);
const about = JSON.parse(at("explanation").textContent);
const names = about.names.map((name) => name.replaceAll("_", " "));
const longest = names.reduce((one, other) => (other.length > one.length ? other : one));
const canvas = at("view");
const context = canvas.getContext("2d", { alpha: false });

let worker = null;
let device = ""; // what computes, once it is ready
let camera = null; // {stream, video}
let facing = "environment";
let shown = null; // the picture, or the camera's video
let wanted = 0; // grows where the picture or the class is another one
let asked = null; // what the worker works on: {number, at, then}
let map = null; // the newest answer
let target = null; // the weight of each class, null for the best one
let scores = null; // averaged
let doneAt = []; // when the last maps came
let wordsAt = 0;

/** Starts the worker from a blob: for such workers this page's policy holds. */
async function start() {
  if (location.protocol === "file:") throw new Error("Open this page through a web server: python -m http.server");
  say(`Loading ${about.megabytes} MB ...`);
  await prepareOffline();
  worker = new Worker(URL.createObjectURL(await (await fetch("worker.js")).blob()), { type: "module" });
  worker.onmessage = ({ data }) => onAnswer(data);
  worker.onerror = () => say("This browser is too old for this page.");
  worker.postMessage({ about, base: new URL("./", location.href).href });
}

/** The service worker keeps the files. The page is loaded again through it, once, so that it may compute
 * in several threads. */
async function prepareOffline() {
  if (!navigator.serviceWorker) return; // it works without, online
  await navigator.serviceWorker.register("offline.js");
  await navigator.serviceWorker.ready;
  if (window.crossOriginIsolated || sessionStorage.getItem(RELOADED)) return;
  sessionStorage.setItem(RELOADED, "yes");
  location.reload();
  await new Promise(() => {});
}

function onAnswer(answer) {
  const question = asked;
  asked = null;
  say(answer.problem ?? "");
  if (answer.device) {
    ({ device } = answer);
    if (!shown && about.example) showPicture(about.example);
  } else if (answer.relevance) {
    const [grey, glow] = [answer.grey, answer.glow].map(canvasOf);
    const steady = scores && camera && question.number === map?.number;
    scores = answer.scores.map((one, n) => (steady ? KEPT * scores[n] + (1 - KEPT) * one : one));
    map = { ...answer, ...question, grey, glow, whole: { box: answer.box, shift: [0, 0] } };
    doneAt = [...doneAt.filter((one) => one > performance.now() - METER_MS), performance.now()];
    at("controls").disabled = false;
  }
  if (!answer.problem) ask();
}

/** Gives the worker the picture, if it has nothing to do. */
async function ask() {
  const number = wanted;
  if (!device || asked || !shown || (!isLive() && map?.number === number)) return;
  asked = { number, at: performance.now(), then: greyOf(shown) };
  const bitmap = await createImageBitmap(shown);
  worker.postMessage({ bitmap, target, anew: map?.number !== number }, [bitmap]);
}

const isLive = () => Boolean(camera) && shown === camera.video;

function canvasOf(data) {
  const copy = new OffscreenCanvas(data.width, data.height);
  copy.getContext("2d").putImageData(data, 0, 0);
  return copy;
}

function draw() {
  const [width, height] = [shown?.videoWidth ?? shown?.width, shown?.videoHeight ?? shown?.height];
  if (width) {
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.drawImage(shown, 0, 0);
    if (map && follow(map.whole, map.then, greyOf(shown))) drawMap(width, height);
  }
  if (performance.now() - wordsAt > RENEW_MS) showWords();
  requestAnimationFrame(draw);
}

function drawMap(width, height) {
  const inPixels = (box) => box.map((one, n) => one * (n % 2 ? height : width));
  const [x0, y0, x1, y1] = inPixels(map.box.map((one, n) => one + map.whole.shift[n % 2]));
  for (const [mode, layer] of [["saturation", map.grey], ["source-over", map.glow]]) {
    context.globalCompositeOperation = mode;
    context.drawImage(layer, x0, y0, x1 - x0, y1 - y0);
  }
  const [left, top, right, bottom] = inPixels(map.box);
  context.strokeStyle = `rgb(255 255 255 / ${about.outline})`;
  if (right - left < width || bottom - top < height) context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
}

/** Shows a picture or a video, or explains another class of it; with no `kept` map. */
function show(image, kept = null) {
  shown = image;
  map = kept;
  wanted += 1;
  at("camera").setAttribute("aria-pressed", Boolean(camera));
  at("freeze").setAttribute("aria-pressed", Boolean(camera) && !isLive());
  at("turn").hidden = at("freeze").disabled = !camera;
  ask();
}

async function showPicture(source) {
  try {
    const picture = await createImageBitmap(typeof source === "string" ? await (await fetch(source)).blob() : source);
    closeCamera();
    show(picture);
  } catch {
    say("That is no picture that this browser reads.");
  }
}

async function openCamera() {
  closeCamera();
  try {
    camera = await openVideo(facing);
    camera.stream.getVideoTracks()[0].onended = closeCamera;
    show(camera.video);
  } catch (error) {
    at("camera-notice").textContent = whyNoCamera(error);
  }
}

/** Its last picture stays. */
function closeCamera() {
  at("camera-notice").textContent = "";
  const last = isLive() ? still() : shown;
  camera?.stream.getTracks().forEach((track) => track.stop());
  camera = null;
  show(last, map);
}

function still() {
  const copy = new OffscreenCanvas(camera.video.videoWidth, camera.video.videoHeight);
  copy.getContext("2d").drawImage(camera.video, 0, 0);
  return copy;
}

/** Explains what the field says: top1, a class by name or number, or A - B. */
function aim(text) {
  const whole = indexOf(text);
  const sides = whole < 0 ? text.split(" - ") : [text];
  const indices = sides.map(indexOf);
  const best = !text || text === "top1";
  if (!best && (indices.includes(-1) || indices.length > 2)) return say(`There is no class “${sides[indices.indexOf(-1)] ?? text}”.`);
  target = best ? null : new Float32Array(names.length);
  if (!best) indices.forEach((index, n) => { target[index] = n ? -1 : 1; });
  at("target").value = text;
  say("");
  return show(shown, map);
}

/** The number of a class, by its name or number; -1 where there is none. */
function indexOf(text) {
  const found = names.findIndex((name) => name.toLowerCase() === text.trim().toLowerCase());
  return found < 0 && /^\d+$/.test(text) && Number(text) < names.length ? Number(text) : found;
}

const buttons = Array.from({ length: Math.min(TOP + 2, names.length) }, () => {
  const track = made("span", { className: "track" }, [made("span", { className: "fill" })]);
  const row = made("button", { type: "button", hidden: true }, [made("span"), made("span"), track]);
  let pressed = null; // another class may come under the finger
  row.onpointerdown = () => { pressed = row.index; };
  row.onclick = () => {
    const index = pressed ?? row.index;
    pressed = null;
    aim(target?.[index] ? "" : names[index]);
  };
  return row;
});

function showWords() {
  wordsAt = performance.now();
  if (!map) return;
  const ranked = names.map((_, n) => n).sort((a, b) => scores[b] - scores[a]);
  const [best] = ranked;
  const percent = (share) => (share < 0.01 && share > 0 ? "<1 %" : `${Math.round(100 * share)} %`);
  const chosen = [...(map.target ?? [])].map((t, n) => [t, n]).filter(([t]) => t).sort(([a], [b]) => b - a).map(([, n]) => n);
  const quoted = (chosen.length ? chosen : [best]).map((n) => `“${names[n]}”`);
  const why = about.target || quoted.join(", not ");
  const text = map.faded ? `no part of this picture speaks for ${why}` : `why: ${why}`;
  const isShare = names.length > 1;
  const headline = { kind: "headline", name: isShare ? names[best] : scores[0].toPrecision(4), longest, before: null };
  const legend = { kind: "legend", ...map.legend, ...(quoted.length > 1 && { low: `for ${quoted[1]}`, high: `for ${quoted[0]}` }) };
  showBlocks(at("said"), [
    [{ ...headline, share: isShare ? scores[best] : 0, percent: isShare ? percent(scores[best]) : "" }],
    [{ kind: "line", text, longest: text, warn: map.faded }, legend],
  ]);
  const listed = [...new Set([...ranked.slice(0, TOP), ...chosen])].sort((a, b) => scores[b] - scores[a]);
  buttons.forEach((row, n) => {
    const index = row.index = listed[n];
    row.hidden = index === undefined || !isShare;
    if (row.hidden) return;
    row.children[0].textContent = names[index];
    row.children[1].textContent = percent(scores[index]);
    row.querySelector(".fill").style.width = `${100 * scores[index]}%`;
    row.setAttribute("aria-pressed", chosen.includes(index));
  });
  const rate = isLive() && doneAt.length > 1 ? `${((doneAt.length - 1) * 1000 / (doneAt.at(-1) - doneAt[0])).toFixed(1)} maps/s, ` : "";
  at("figures").textContent = `${rate}${Math.round(map.ms)} ms a map, ${device}`;
}

function say(text) {
  at("notice").textContent = text;
}

at("classes").append(...buttons);
at("targets").append(...names.map((value) => made("option", { value })));
at("target").parentElement.hidden = Boolean(about.target) || names.length < 2;
at("target").onchange = () => aim(at("target").value.trim());
at("camera").onclick = () => (camera ? closeCamera() : openCamera());
at("turn").onclick = () => {
  facing = facing === "user" ? "environment" : "user";
  openCamera();
};
at("open").onclick = () => at("file").click();
at("file").onchange = () => at("file").files[0] && showPicture(at("file").files[0]);
document.ondragover = (event) => event.preventDefault();
document.ondrop = (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) showPicture(event.dataTransfer.files[0]);
};
at("freeze").onclick = () => show(isLive() ? still() : camera.video, map);
at("snapshot").onclick = () => canvas.toBlob((blob) => {
  const href = URL.createObjectURL(blob);
  made("a", { href, download: `realtime_lrp-${timestamp()}.png` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
});
requestAnimationFrame(draw);
start().catch((error) => say(error.message));
