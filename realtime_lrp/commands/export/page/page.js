// The page of an exported explanation: shows a camera or a picture with its map, and the answers. The
// worker computes; nothing is sent anywhere.
import { drawOn, timestamp } from "./canvas.js";
import { follow, greyOf, openVideo, whyNoCamera } from "./device.js";
import { made, showBlocks } from "./figures.js";

const KEPT = 0.7; // share of the previous scores that stays with each new picture of a camera
const TOP = 5; // classes with a row: the best ones, and the chosen one
const RENEW_MS = 250; // how often texts are renewed
const SIDE = 1280; // of the largest picture that is drawn

const at = (id) => document.getElementById(id);
const about = JSON.parse(at("explanation").textContent);
const { names } = about;
const say = (text) => { at("notice").textContent = text; };
const longest = names.reduce((one, other) => (other.length > one.length ? other : one));
const isLive = () => Boolean(camera) && shown === camera.video;
const canvas = at("view");
const context = canvas.getContext("2d", { alpha: false });

let worker = null;
let device = ""; // what computes, once it is ready
let camera = null; // {stream, video}
let facing = "environment";
let shown = null; // the picture, or the camera's video
let wanted = 0; // the number of picture and class
let isFree = false; // whether the worker takes a picture
let asked = 0; // the number of the last one that it got
const questions = []; // what it has not answered: {number, then}
let map = null; // the newest answer
let target = null; // the explained class, null for the best one
let scores = null; // averaged
let doneAt = 0; // when the last map came
let paceMs = 0; // between two maps, averaged

/** Starts the worker from a blob: for such workers this page's policy holds. */
async function start() {
  if (location.protocol === "file:") throw new Error("Open this page through a web server, such as: python -m http.server");
  if (!window.WebAssembly) throw new Error("This page needs WebAssembly, which this browser lacks or has switched off.");
  say(`Loading ${about.megabytes} MB ...`);
  await prepareOffline();
  worker = new Worker(URL.createObjectURL(await (await fetch("worker.js")).blob()), { type: "module" });
  worker.onmessage = onAnswer;
  worker.onerror = () => say("This browser is too old for this page.");
  worker.postMessage({ about, base: new URL("./", location.href).href });
}

/** The service worker keeps the files, once the page is loaded through it. */
async function prepareOffline() {
  const found = await navigator.serviceWorker?.register("offline.js").catch(() => null);
  if (!found || navigator.serviceWorker.controller || sessionStorage.getItem(found.scope)) return;
  sessionStorage.setItem(found.scope, "is loaded again");
  await navigator.serviceWorker.ready;
  location.reload();
  await new Promise(() => {});
}

function onAnswer({ data: answer }) {
  isFree ||= !answer.relevance;
  if (answer.free) return ask();
  const question = questions.shift();
  say(answer.problem ?? "");
  if (answer.device) {
    ({ device } = answer);
    if (!shown && about.example) fetch(about.example).then((one) => one.blob()).then(showPicture);
  } else if (answer.relevance) {
    const [grey, glow] = [answer.grey, answer.glow].map(canvasOf);
    const steady = scores && camera && question.number === map?.number;
    scores = answer.scores.map((one, n) => (steady ? KEPT * scores[n] + (1 - KEPT) * one : one));
    map = { ...answer, ...question, grey, glow, whole: { box: answer.box, shift: [0, 0] } };
    const ms = performance.now() - doneAt;
    paceMs = steady ? KEPT * (paceMs || ms) + (1 - KEPT) * ms : 0;
    doneAt += ms;
    at("controls").disabled = false;
  }
  return isLive() ? ask() : draw();
}

/** Gives the worker the picture, if it computes nothing: it may paint meanwhile. */
async function ask() {
  if (!device || !isFree || !shown || (!isLive() && asked === wanted)) return;
  const anew = asked !== wanted;
  isFree = false;
  asked = wanted;
  questions.push({ number: wanted, then: greyOf(shown) });
  const bitmap = await createImageBitmap(shown).catch(() => { isFree = Boolean(questions.pop()); });
  if (bitmap) worker.postMessage({ bitmap, target, anew }, [bitmap]);
}

function canvasOf(data) {
  const copy = new OffscreenCanvas(data.width, data.height);
  copy.getContext("2d").putImageData(data, 0, 0);
  return copy;
}

/** Draws the picture with its map; called for each picture of the camera, and for whatever else is new. */
function draw() {
  ask();
  const [width, height] = [shown?.videoWidth ?? shown?.width, shown?.videoHeight ?? shown?.height];
  if (!width) return;
  drawOn(canvas, shown, width, height);
  if (map && follow(map.whole, map.then, greyOf(shown))) drawMap(width, height);
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
  at("camera-notice").textContent = "";
  draw();
}

async function showPicture(file) {
  const picture = await createImageBitmap(file).catch(() => null);
  if (!picture) return say("This file is no picture that this browser reads.");
  closeCamera();
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const [resizeWidth, resizeHeight] = [picture.width, picture.height].map((one) => Math.max(1, Math.round(one * scale)));
  return show(await createImageBitmap(picture, { resizeWidth, resizeHeight, resizeQuality: "high" }));
}

async function openCamera() {
  closeCamera();
  try {
    const opened = await openVideo(facing);
    closeCamera(); // another one, if the button was pressed twice
    camera = opened;
    camera.stream.getVideoTracks()[0].onended = closeCamera;
    const next = opened.video.requestVideoFrameCallback?.bind(opened.video) ?? requestAnimationFrame;
    const onFrame = () => {
      if (isLive()) draw();
      if (camera === opened) next(onFrame);
    };
    onFrame();
    show(camera.video);
  } catch (error) {
    at("camera-notice").textContent = whyNoCamera(error);
  }
}

/** Its last picture stays. */
function closeCamera() {
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

/** Explains the class of a name or number; "" and top1 are the best class. */
function aim(text) {
  const found = names.findIndex((name) => name.toLowerCase() === text.toLowerCase());
  const index = found < 0 && /^\d+$/.test(text) ? Number(text) : found;
  const best = !text || text === "top1";
  if (!best && !(index in names)) return say(`There is no class “${text}”.`);
  target = best ? null : index;
  at("target").value = best ? "" : names[index];
  say("");
  return show(shown, map);
}

const buttons = Array.from({ length: names.length > 1 ? Math.min(TOP, names.length) : 0 }, () => {
  const row = made("button", { type: "button", hidden: true, disabled: Boolean(about.target) }, [made("span"), made("span"),
    made("span", { className: "track" }, [made("span", { className: "fill" })])]);
  row.onpointerdown = () => { row.pressed = row.index; }; // another class may come under the finger
  row.onclick = ({ pointerType }) => {
    const index = pointerType ? row.pressed : row.index;
    aim(index === target ? "" : names[index]);
  };
  return row;
});

function showWords() {
  if (!map) return;
  const listed = names.map((_, n) => n).sort((a, b) => scores[b] - scores[a]).slice(0, TOP);
  const [best] = listed;
  const chosen = map.target ?? best;
  if (!listed.includes(chosen)) listed[TOP - 1] = chosen;
  const percent = (share) => (share < 0.01 && share > 0 ? "<1 %" : `${Math.round(100 * share)} %`);
  const why = about.target || `“${names[chosen]}”`;
  const faded = "nothing speaks for ";
  const [name, share, said] = buttons.length ? [names[best], scores[best], percent(scores[best])] : [scores[0].toPrecision(4), 0, ""];
  showBlocks(at("said"), [
    [{ kind: "headline", name, longest, share, percent: said, before: null }],
    [{ kind: "line", text: (map.faded ? faded : "why: ") + why, longest: `${faded}“${about.target || longest}”`, warn: map.faded }, { kind: "legend", ...about.legend }],
  ]);
  buttons.forEach((row, n) => {
    const index = row.index = listed[n];
    row.hidden = false;
    row.children[0].textContent = names[index];
    row.children[1].textContent = percent(scores[index]);
    row.querySelector(".fill").style.width = `${100 * scores[index]}%`;
    row.setAttribute("aria-pressed", index === map.target);
  });
  const rate = isLive() && paceMs ? `${(1000 / paceMs).toFixed(1)} maps/s, ` : "";
  at("figures").textContent = `${rate}${Math.round(map.ms)} ms a map, ${device}`;
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
at("open").onclick = () => Object.assign(at("file"), { value: "" }).click();
at("file").onchange = () => at("file").files[0] && showPicture(at("file").files[0]);
at("freeze").onclick = () => show(isLive() ? still() : camera.video, map);
at("snapshot").onclick = () => canvas.toBlob((blob) => {
  const href = URL.createObjectURL(blob);
  made("a", { href, download: `realtime_lrp-${timestamp()}.png` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
});
setInterval(showWords, RENEW_MS);
start().catch((error) => say(error.message));
