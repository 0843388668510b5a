// The camera of this device, and where a part of an earlier picture of it is now.

const [COLUMNS, ROWS] = [96, 72]; // of the pictures that are compared
const REACH = 4; // in their pixels, from where the part was last
// mean difference of brightness from which on the part is lost: at most, at least, as a share of its contrast
const [UNLIKE, NOISE, UNLIKE_SHARE] = [24, 8, 0.75];

const canvas = Object.assign(document.createElement("canvas"), { width: COLUMNS, height: ROWS });
const context = canvas.getContext("2d", { willReadFrequently: true });

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

/** The brightness of what the camera sees, small. */
export function greyOf(video) {
  context.drawImage(video, 0, 0, COLUMNS, ROWS);
  const { data } = context.getImageData(0, 0, COLUMNS, ROWS);
  return Float32Array.from({ length: ROWS * COLUMNS }, (_, n) => data[4 * n + 1]);
}

/** Moves a part {box, shift} on to the picture `now`; `box` is where it was in the picture `then`,
 * `shift` how far it has gone, in shares of the picture. False if it is lost. */
export function follow(part, then, now) {
  const [x0, y0, x1, y1] = part.box.map((at, n) => Math.round(at * (n % 2 ? ROWS : COLUMNS)));
  const [left, down] = [part.shift[0] * COLUMNS, part.shift[1] * ROWS].map(Math.round);
  const own = [];
  for (let y = Math.max(y0, 0); y < Math.min(y1, ROWS); y += 2) {
    for (let x = Math.max(x0, 0); x < Math.min(x1, COLUMNS); x += 2) own.push(then[y * COLUMNS + x]);
  }
  const mean = own.reduce((sum, one) => sum + one, 0) / own.length;
  const contrast = own.reduce((sum, one) => sum + Math.abs(one - mean), 0) / own.length;
  let least = Infinity;
  for (let dy = down - REACH; dy <= down + REACH; dy += 1) {
    for (let dx = left - REACH; dx <= left + REACH; dx += 1) {
      let [sum, count] = [0, 0];
      for (let y = Math.max(y0, 0, -dy); y < Math.min(y1, ROWS, ROWS - dy); y += 2) {
        for (let x = Math.max(x0, 0, -dx); x < Math.min(x1, COLUMNS, COLUMNS - dx); x += 2) {
          sum += Math.abs(now[(y + dy) * COLUMNS + x + dx] - then[y * COLUMNS + x]);
          count += 1;
        }
      }
      if (count && sum / count < least) {
        least = sum / count;
        part.shift = [dx / COLUMNS, dy / ROWS];
      }
    }
  }
  return least < Math.min(UNLIKE, Math.max(NOISE, UNLIKE_SHARE * contrast));
}
