// The camera of this device.

/** Opens the camera: its stream, and a video that plays it; `facing` is "environment" for what is before
 * a phone, "user" for who holds it. */
export async function openVideo(facing) {
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { width: { ideal: 640 }, height: { ideal: 480 }, facingMode: { ideal: facing } },
    audio: false,
  });
  const video = Object.assign(document.createElement("video"), {
    srcObject: stream, muted: true, playsInline: true,
  });
  await video.play();
  return { stream, video };
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
