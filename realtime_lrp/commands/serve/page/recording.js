// A film of the picture, made by the browser and downloaded at the end; the server stores nothing.

const TYPES = ["video/mp4;codecs=avc1", "video/webm;codecs=vp9", "video/webm"];
const FPS = 30;

/** Whether this browser can record. */
export const canRecord = Boolean(window.MediaRecorder && HTMLCanvasElement.prototype.captureStream);

/** The time as names of files have it. */
export function timestamp() {
  return new Date().toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
}

/** Records a canvas until the returned function is called; `done` gets the film and a name for it. */
export function record(canvas, done) {
  const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
  const recorder = new MediaRecorder(canvas.captureStream(FPS), { mimeType });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.onstop = () => {
    const type = recorder.mimeType.split(";")[0];
    done(new Blob(parts, { type }), `realtime_lrp-${timestamp()}.${type.split("/")[1]}`);
  };
  recorder.start(1000);
  return () => {
    recorder.stop();
    return null;
  };
}
