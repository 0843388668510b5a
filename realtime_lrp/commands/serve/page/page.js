// The controls, the figures and the keys. The state is the server's: controls send a message and
// then show what the news say.
import { openCamera } from "./camera.js";
import { canRecord, paintOn, record, timestamp } from "./canvas.js";
import { choose, commandOf, findIn, hasCommands, takeCommands } from "./commands.js";
import { conceptRows } from "./concepts.js";
import { whyNoCamera } from "./device.js";
import { made, showBlocks } from "./figures.js";
import { lessonButtons } from "./lesson.js";
import { connect } from "./link.js";

const at = (id) => document.getElementById(id);
const canvas = at("view");
const METER_MS = 2000;
const FIGURES_MS = 250; // how often the line of figures is renewed
const SEEK_MS = 100; // at least between two positions, while the bar is dragged
const SEEK_SHOWN_MS = 1000; // how long the bar stays where it was put
const LEAST_SHAPE = 2 / 3; // width by height of upright pictures, of which less is cut off
const CONTROLS_OF_VIEW = "The controls change the view for everybody. This camera follows its method, " +
  "class and colours alone; Snapshot and Record take what you see here.";

const bare = location.pathname.endsWith("/view"); // the picture alone, for OBS and projectors
const shownAt = [];
let control = false;
let latest = null; // the newest news of this connection
let camera = null; // this device's own, while it is used
let facing = "environment";
let concepts = null; // the newest message about channels
let timeline = null; // where the film is; null for a camera
let stopRecording = null; // while a film is recorded; returns null
let seekAt = 0;
document.body.classList.toggle("bare", bare);

const { send, sendPicture, hold } = connect(canvas, {
  role: onRole, choices: onChoices, news: onNews, map: onMap, concepts: onConcepts, lost, shown,
});
const pick = (what, value) => send({ type: "choice", what, value });
const lesson = lessonButtons(at("lesson"), ready, send);
const rows = conceptRows(at("concept-rows"), usable, (channel) => pick("channel", channel));

function onRole(role) {
  control = role.control && !bare;
  camera?.restart();
  at("controls").hidden = !control;
  document.body.classList.toggle("watching", !control);
  if (role.watch) {
    const address = new URL(location.pathname, location.href);
    address.searchParams.set("token", role.watch);
    at("watch").href = address;
    at("watch").textContent = at("code-address").textContent = address;
    say("code-warning", whatPhonesAsk(role.fingerprint));
  }
}

/** What happens on a phone that opens the address. */
function whatPhonesAsk(fingerprint) {
  if (/^(localhost|127\.|\[::1\])/.test(location.hostname)) {
    return "Only this machine opens that address. For phones start with --host 0.0.0.0 --https.";
  }
  if (location.protocol === "http:") {
    return "Phones can watch. They give their own camera only if this is started with --https.";
  }
  if (!fingerprint) return "";
  return "The phone will say that the connection is not private, because this machine made the certificate " +
    "itself. Choose Advanced, then Proceed (Safari: Show Details, then visit this website). It asks once. " +
    `SHA-256: ${fingerprint}`;
}

function onChoices(choices) {
  fillSelect(at("method"), choices.methods);
  fillSelect(at("composite"), choices.composites);
  at("look").replaceChildren(...choices.look.map(lookControl));
  rows.forget();
  at("targets").replaceChildren(...choices.targets.map((name) => made("option", { value: name })));
  takeCommands(choices.commands);
  refresh();
}

/** The control of a drawing setting: a list of its values, or a number from 0 to 1. */
function lookControl([name, label, values]) {
  const control = values.length ? made("select", { id: name, name })
    : made("input", { id: name, name, type: "range", min: 0, max: 1, step: 0.05 });
  if (values.length) fillSelect(control, values);
  return made("label", {}, [`${label} `, control]);
}

function fillSelect(select, names, textOf = (name) => name) {
  select.replaceChildren(...names.map((name) => made("option", { value: name, textContent: textOf(name) })));
}

// What the news say

function onNews(news) {
  latest = news;
  const { method, composite, target } = news;
  for (const [name, value] of Object.entries({ ...news.look, method, composite, target })) {
    if (at(name) && document.activeElement !== at(name)) at(name).value = value;
  }
  at("composite").disabled = method !== "lrp";
  for (const button of document.querySelectorAll("[data-state]")) {
    button.setAttribute("aria-pressed", String(news[button.dataset.state]));
  }
  at("uncover").disabled = !news.covered;
  ({ timeline } = news);
  canvas.classList.toggle("framing", Boolean(news.framing));
  showOutline();
  document.documentElement.dataset.text = news.text_size;
  if (!camera) {
    shapeFor(news.region);
    showBlocks(at("answers"), [...news.right, ...news.left], usable() && ((name) => pick("line", name)));
    at("figures").dataset.maps = news.maps;
  }
  refresh();
}

/** Lets an upright screen cut off what is beside `region`, which the network sees, in shares of the
 * picture; of an upright picture as little as possible. */
function shapeFor([x0, y0, x1, y1]) {
  const picture = canvas.width / canvas.height;
  const shape = Math.min(picture * (x1 - x0) / (y1 - y0), Math.max(picture, LEAST_SHAPE));
  document.documentElement.style.setProperty("--shape", shape.toFixed(3));
}

/** Shows what follows from the news, the connection and this device's camera. */
function refresh() {
  lesson.show(control && !camera && latest?.lesson); // it is taught what is before the view's camera
  showNotices();
  showFilm();
  showFigures();
}

/** Whether the buttons of a lesson work: not without a connection, nor while the network loads. */
function ready() {
  return control && latest !== null && !latest.loading;
}

/** Whether the controls and keys work: from the first map on, when all commands are known. */
function usable() {
  return ready() && hasCommands();
}

/** The lines over the picture and above the controls; those are disabled while they cannot work. */
function showNotices() {
  if (latest) {
    const { trouble, notice, frozen } = latest;
    const ofView = camera ? [] : [trouble, frozen ? "frozen" : ""];
    say("notice", [...ofView, notice].filter(Boolean).join("\n"));
  }
  at("controls").disabled = !usable();
  at("data").disabled = camera !== null;
  if (latest?.loading) say("controls-notice", `${latest.loading}: the controls work as soon as it is ready`);
  else say("controls-notice", camera ? CONTROLS_OF_VIEW : "");
}

/** Sets the text of an element; a screen reader would repeat one that is set again. */
function say(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

/** Where the film is. */
function showFilm() {
  at("film").hidden = !timeline || camera !== null;
  if (!timeline) return;
  at("film-position").textContent = timeline.position;
  at("film-length").textContent = timeline.length;
  at("seek").setAttribute("aria-valuetext", `${timeline.position} of ${timeline.length}`);
  if (performance.now() - seekAt > SEEK_SHOWN_MS) at("seek").value = timeline.share;
  at("seek").disabled = !usable();
}

// Figures

function shown(latency) {
  shownAt.push(performance.now());
  at("figures").dataset.latency = latency;
}

function showFigures() {
  const { dataset } = at("figures");
  const rate = ratePerS(shownAt);
  dataset[camera ? "maps" : "shown"] = rate;
  at("answers").classList.toggle("old", camera?.gone() ?? false);
  if (camera) {
    const age = camera.age();
    dataset.latency = Math.round(age ?? 0);
    say("figures", `this device's camera · ${rate} maps/s · ` +
      (age === null ? "no map yet" : `the map is ${(age / 1000).toFixed(2)} s old`));
  } else if (latest?.frozen) {
    say("figures", "frozen");
  } else {
    const comes = latest && !latest.trouble && performance.now() - shownAt.at(-1) < METER_MS;
    say("figures", `${comes ? rate : "-"} pictures/s · ${latest?.maps ?? "-"} maps/s · ` +
      `${comes ? Math.round(dataset.latency) : "-"} ms from camera to screen`);
  }
}

/** How often something happened each second, lately. */
function ratePerS(times) {
  const now = performance.now();
  while (times.length > 2 && now - times[0] > METER_MS) times.shift();
  return times.length > 1 ? (1000 * (times.length - 1) / (now - times[0])).toFixed(1) : "0";
}

function lost(sentence) {
  if (sentence) latest = null;
  document.body.classList.toggle("lost", sentence !== "");
  say("notice", sentence);
  refresh();
}

setInterval(showFigures, FIGURES_MS);

// This device's camera

at("camera").addEventListener("click", () => camera ? closeCamera() : useCamera());
at("turn").addEventListener("click", () => {
  facing = facing === "user" ? "environment" : "user";
  closeCamera();
  useCamera();
});

async function useCamera() {
  at("camera").disabled = true;
  hold(true);
  try {
    camera = await openCamera(canvas, sendPicture, closeCamera, facing);
    changeCamera();
    const devices = await navigator.mediaDevices.enumerateDevices();
    at("turn").hidden = devices.filter(({ kind }) => kind === "videoinput").length < 2;
  } catch (error) {
    hold(false);
    say("camera-notice", whyNoCamera(error));
  }
  at("camera").disabled = false;
}

function closeCamera() {
  camera?.stop();
  camera = null;
  hold(false);
  changeCamera();
}

function changeCamera() {
  at("camera").setAttribute("aria-pressed", String(camera !== null));
  at("turn").hidden = true;
  at("camera").textContent = camera ? "Stop this device's camera" : "Use this device's camera";
  say("camera-notice", "");
  shownAt.length = 0;
  showConcepts();
  refresh();
}

function onConcepts(...message) {
  concepts = message;
  showConcepts();
}

/** The channels of the view; not beside this device's camera. */
function showConcepts() {
  const shown = concepts?.[0].shown && !camera;
  if (shown) rows.show(...concepts);
  else rows.hide();
  at("concept-layer").disabled = !shown;
  if (shown) showLayers(concepts[0]);
}

/** The layers to choose from; the list stays as it is while somebody chooses. Where the gallery has
 * pictures for some layers, the others are marked. */
function showLayers({ layer, layers, without_pictures: pictureless }) {
  const select = at("concept-layer");
  if (document.activeElement === select && select.options.length) return;
  if ([...select.options].map((option) => option.value).join() !== layers.join()) {
    fillSelect(select, layers, (name) => pictureless.includes(name) ? `${name} (no pictures)` : name);
  }
  select.value = layer;
}

function onMap(fields, png) {
  if (!camera) return;
  const why = fields.reason;
  say("camera-notice", at("notice").textContent.includes(why) ? "" : why);
  if (fields.blocks) showBlocks(at("answers"), fields.blocks);
  if (png.byteLength) {
    shownAt.push(performance.now());
    shapeFor(fields.box);
  }
  camera.take(fields, png);
}

// Controls

at("controls").addEventListener("input", ({ target }) => {
  if (target.name) pick(target.name, target.type === "range" ? Number(target.value) : target.value);
});
at("target").addEventListener("change", ({ target }) => {
  if (target.value.trim()) pick("target", target.value.trim());
  target.blur();
});
at("target").addEventListener("focus", ({ target }) => target.select());
for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", () => choose(button.dataset.do, send));
}
at("snapshot").addEventListener("click", () => {
  if (camera) canvas.toBlob((blob) => save(blob, `realtime_lrp-${timestamp()}.png`));
  else download("snapshot.png");
});
at("data").addEventListener("click", () => download("snapshot.npz"));
at("paint").addEventListener("click", ({ target }) => {
  target.setAttribute("aria-pressed", String(canvas.classList.toggle("painting")));
});
at("show-code").addEventListener("click", () => {
  at("code-picture").src = `qr.svg?address=${encodeURIComponent(at("watch").href)}`;
  at("code").showModal();
});
for (const type of ["input", "change"]) {
  at("seek").addEventListener(type, () => {
    if (type === "input" && performance.now() - seekAt < SEEK_MS) return;
    seekAt = performance.now();
    pick("position", Number(at("seek").value));
  });
}
at("record").hidden = !canRecord;
at("record").addEventListener("click", () => {
  stopRecording = stopRecording ? stopRecording() : record(canvas, save);
  at("record").setAttribute("aria-pressed", String(stopRecording !== null));
  at("record").textContent = stopRecording ? "Stop recording" : "Record";
});
const brush = () => latest && !latest.tiled ? latest.brush : 0; // its radius; 0 for no circle
const showOutline = paintOn(canvas, () => usable() && !camera, at("brush"), brush, send,
  () => latest?.points);
at("fill").hidden = !document.fullscreenEnabled;
findIn(at("help"), send);
at("fill").addEventListener("click", () => {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.querySelector("main").requestFullscreen?.().catch(() => {});
});

/** Saves a file of the server; says why where there is none. */
async function download(file) {
  try {
    const answer = await fetch(file, { cache: "no-store" });
    const name = /filename="([\w.-]+)"/.exec(answer.headers.get("Content-Disposition"))?.[1];
    if (answer.ok) save(await answer.blob(), name);
    else say("notice", (await answer.text()).replace(/^\d+: /, ""));
  } catch {
    say("notice", "The snapshot did not arrive. Try again.");
  }
}

/** Downloads a file that is here already. */
function save(file, name) {
  const address = URL.createObjectURL(file);
  made("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Keys

document.addEventListener("keydown", (event) => {
  if (!ready() || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (!at("keys-on").checked || takesKeys(event.target, event.key)) return;
  const command = commandOf(nameOf(event.key));
  if (lesson.down(nameOf(event.key), event.repeat)) event.preventDefault();
  if (event.defaultPrevented || !command) return;
  if (!event.repeat) choose(command, send);
  event.preventDefault();
});
document.addEventListener("keyup", (event) => lesson.up(nameOf(event.key)));

/** The name of a key in the server's list. */
function nameOf(key) {
  if (key.length === 1) return key === " " ? "space" : key.toLowerCase();
  const named = { Enter: "Return", Backspace: "BackSpace" }[key] ?? key;
  return named.replace("Arrow", "").replace("Page", "Page_");
}

/** Whether a key is for the element that has the focus. */
function takesKeys(element, key) {
  if (element.matches("input, select, textarea")) return true;
  return element.matches("button, a, [href]") && (key === " " || key === "Enter");
}

// The token is in a cookie by now: whoever sees the screen need not read it.
history.replaceState(null, "", location.pathname);
