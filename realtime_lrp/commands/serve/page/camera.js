// This device's own camera: its pictures go up, small and one at a time; the map that comes back is
// laid over the local video, which stays smooth at any speed of the network.

const LONGER_SIDE = 320;
const QUALITY = 0.8;
const ANSWER_MS = 10000;
const OLD_MS = 5000;

/**
 * Shows the camera on a canvas until the returned camera is stopped.
 *
 * @param {HTMLCanvasElement} canvas where video and map go
 * @param {(picture: ArrayBuffer) => boolean} sendPicture false where there is no connection
 * @param {() => void} ended called if the camera goes by itself
 * @returns {Promise<{take: Function, stop: Function, age: () => number}>} `take` takes a map,
 *          `age` is the age of the one that is shown, in milliseconds
 */
export async function openCamera(canvas, sendPicture, ended) {
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { width: { ideal: 640 }, height: { ideal: 480 }, facingMode: { ideal: "environment" } },
    audio: false,
  });
  const video = Object.assign(document.createElement("video"), {
    srcObject: stream, muted: true, playsInline: true,
  });
  await video.play();
  const context = canvas.getContext("2d", { alpha: false });
  const small = document.createElement("canvas");
  let stopped = false;
  let sentAt = -Infinity; // of the picture that has no answer yet
  let map = null; // {picture, box, at}

  async function sendNext() {
    const scale = Math.min(1, LONGER_SIDE / Math.max(video.videoWidth, video.videoHeight));
    small.width = Math.max(1, Math.round(scale * video.videoWidth));
    small.height = Math.max(1, Math.round(scale * video.videoHeight));
    small.getContext("2d").drawImage(video, 0, 0, small.width, small.height);
    const at = performance.now();
    sentAt = at;
    const blob = await new Promise((done) => small.toBlob(done, "image/jpeg", QUALITY));
    if (!stopped && !(blob && sendPicture(await blob.arrayBuffer()))) sentAt = -Infinity;
  }

  function draw() {
    if (stopped) return;
    const { videoWidth: width, videoHeight: height } = video;
    if (width && (canvas.width !== width || canvas.height !== height)) {
      canvas.width = width;
      canvas.height = height;
    }
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    const now = performance.now();
    if (map && now - map.at < OLD_MS) {
      const [x0, y0, x1, y1] = map.box;
      context.drawImage(map.picture, x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
    }
    if (width && now - sentAt > ANSWER_MS) sendNext();
    requestAnimationFrame(draw);
  }

  async function take(fields, png) {
    const at = sentAt;
    const picture = png.byteLength ? await createImageBitmap(new Blob([png])) : null;
    if (stopped) return;
    map?.picture.close();
    map = picture && { picture, box: fields.box, at };
    sendNext();
  }

  function stop() {
    stopped = true;
    stream.getTracks().forEach((track) => track.stop());
    map?.picture.close();
  }

  stream.getVideoTracks()[0].addEventListener("ended", ended);
  requestAnimationFrame(draw);
  return { take, stop, age: () => (map ? performance.now() - map.at : 0) };
}

/** A sentence that says why there is no camera. */
export function whyNoCamera(error) {
  if (!window.isSecureContext) {
    return "Browsers give a camera only to pages over HTTPS, or on the same machine.";
  }
  return {
    NotAllowedError: "The camera was not allowed. Allow it in the browser's settings of this page.",
    NotFoundError: "This device has no camera.",
    NotReadableError: "Another program uses the camera.",
  }[error.name] ?? `The camera cannot be opened (${error.message}).`;
}
