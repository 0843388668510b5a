// This device's own camera: its pictures go up, small and one at a time; the map that comes back is
// laid over the local video, which stays smooth at any speed of the network.
import { drawOn } from "./canvas.js";
import { follow, greyOf, openVideo } from "./device.js";

const LONGER_SIDE = 320;
const QUALITY = 0.8;
const RENEW_MS = 1000; // a picture that waits longer for its turn is replaced
const OLD_MS = 5000; // a map is shown no longer than this, if no other one comes

/** Shows the camera on a canvas until the returned camera is stopped; `sendPicture` returns the
 * picture's number, 0 without a connection, `ended` is called if the camera goes by itself; `facing` is
 * "environment" for what is before a phone, "user" for who holds it. `restart` is for a new connection,
 * `age` is the map's in milliseconds, null if there is none; `gone` says that the scene is another one. */
export async function openCamera(canvas, sendPicture, ended, facing) {
  const { stream, video } = await openVideo(facing);
  const context = canvas.getContext("2d", { alpha: false });
  const small = document.createElement("canvas");
  let stopped = false;
  let sent = new Map(); // number of a picture -> when it was taken, and its brightness
  let sentAt = -Infinity; // when the last one was taken
  let gone = false; // whether the scene is another one than the map's
  let map = null; // {picture, whole, outlines, then, at, until}

  async function sendNext() {
    const scale = Math.min(1, LONGER_SIDE / Math.max(video.videoWidth, video.videoHeight));
    small.width = Math.max(1, Math.round(scale * video.videoWidth));
    small.height = Math.max(1, Math.round(scale * video.videoHeight));
    small.getContext("2d").drawImage(video, 0, 0, small.width, small.height);
    const connection = sent;
    sentAt = performance.now();
    const taken = { at: sentAt, then: greyOf(video) };
    const blob = await new Promise((done) => small.toBlob(done, "image/jpeg", QUALITY));
    const jpeg = await blob?.arrayBuffer();
    const number = jpeg && !stopped && connection === sent && sendPicture(jpeg);
    if (number) sent.set(number, taken);
  }

  function draw() {
    if (stopped) return;
    const { videoWidth: width, videoHeight: height } = video;
    if (width) drawOn(canvas, video, width, height);
    const now = performance.now();
    if (map && now < map.until) {
      const seen = greyOf(video);
      gone = !follow(map.whole, map.then, seen);
      if (!gone) {
        const [x0, y0, x1, y1] = placeOf(map.whole);
        context.drawImage(map.picture, x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
      }
      for (const outline of map.outlines) {
        if (follow(outline, map.then, seen)) drawOutline(outline, width, height);
      }
    }
    if (width && now - sentAt > RENEW_MS) sendNext();
    requestAnimationFrame(draw);
  }

  /** A box of a detector, with what stands above and below it. */
  function drawOutline(outline, width, height) {
    const { box, lines, texts, colour } = outline;
    const [x0, y0, x1, y1] = placeOf(outline);
    const size = Math.max(11, Math.round(height / 26));
    const [left, top, right, bottom] = [x0 * width, y0 * height, x1 * width, y1 * height];
    context.font = `600 ${size}px sans-serif`;
    for (const [style, line] of [["black", 4], [colour, 2]]) {
      Object.assign(context, { strokeStyle: style, lineWidth: line });
      if (!lines.length) context.strokeRect(left, top, right - left, bottom - top);
      for (const corners of lines) {
        context.beginPath();
        for (const [x, y] of corners) context.lineTo((x + x0 - box[0]) * width, (y + y0 - box[1]) * height);
        context.closePath();
        context.stroke();
      }
      const rows = [Math.max(size, top - size / 3), Math.min(height - 4, bottom + size)];
      context.fillStyle = colour;
      texts.forEach((text, n) => {
        if (style === "black") context.strokeText(text, left, rows[n]);
        else context.fillText(text, left, rows[n]);
      });
    }
  }

  async function take(fields, png) {
    const taken = sent.get(fields.number);
    if (!taken) return; // another camera's, from before this one
    for (const number of sent.keys()) if (number <= fields.number) sent.delete(number);
    if (!sent.size) sendNext(); // else a newer picture waits there already
    const picture = png.byteLength ? await createImageBitmap(new Blob([png])) : null;
    if (stopped) return;
    map?.picture.close();
    const outlines = fields.outlines.map((one) => ({ ...one, shift: [0, 0] }));
    const whole = { box: fields.box, shift: [0, 0] };
    map = picture && { ...taken, picture, whole, outlines, until: performance.now() + OLD_MS };
  }

  function restart() {
    sent = new Map();
    sentAt = -Infinity;
  }

  function stop() {
    stopped = true;
    stream.getTracks().forEach((track) => track.stop());
    map?.picture.close();
  }

  stream.getVideoTracks()[0].addEventListener("ended", ended);
  requestAnimationFrame(draw);
  return { take, restart, stop, age: () => map && performance.now() - map.at, gone: () => gone };
}

/** Where a part that is followed is now. */
const placeOf = ({ box, shift }) => box.map((at, n) => at + shift[n % 2]);
