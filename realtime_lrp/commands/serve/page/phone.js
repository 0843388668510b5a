// A visitor's phone: its camera's pictures go to the exhibit while it is its turn. Nothing else is
// sent, and nothing is kept.

const LONGER_SIDE = 640; // the server takes no larger pictures
const MOST_BYTES = 128 * 1024;
const PAUSE_MS = 80; // between two pictures
const QUALITIES = [.75, .5, .25];

const at = (id) => document.getElementById(id);
const video = at("video");
const canvas = document.createElement("canvas");
let texts = null;
let stream = null;
let live = false;

history.replaceState(null, "", location.pathname); // the token is in the cookie now

const address = new URL("ws", location.href);
address.protocol = address.protocol.replace("http", "ws");
const socket = new WebSocket(address);
socket.onmessage = ({ data }) => {
  const message = JSON.parse(data);
  if (message.type === "texts") show(message);
  else if (message.type === "status") hear(message);
};
socket.onclose = () => {
  stop();
  at("start").hidden = true;
  say(texts?.lost ?? "\u26a0");
};

function show(message) {
  texts = message;
  document.documentElement.lang = message.language;
  at("title").textContent = message.invite;
  at("start").textContent = message.start;
  at("stop").textContent = message.stop;
  at("privacy").textContent = message.privacy;
  at("start").hidden = false;
}

function hear({ state, seconds }) {
  live = state === "live";
  if (!stream) return;
  if (state === "over" || state === "full") stop();
  say(texts[state].replace("{seconds}", seconds));
}

function say(text) {
  if (at("status").textContent !== text) at("status").textContent = text;
}

at("start").addEventListener("click", async () => {
  at("start").hidden = true;
  try {
    stream = await navigator.mediaDevices.getUserMedia({
      video: { width: { ideal: 640 }, height: { ideal: 480 }, facingMode: { ideal: "environment" } },
      audio: false,
    });
  } catch {
    at("start").hidden = false;
    say(texts.refused);
    return;
  }
  stream.getVideoTracks()[0].addEventListener("ended", stop);
  video.srcObject = stream;
  video.hidden = at("stop").hidden = false;
  await video.play();
  navigator.wakeLock?.request("screen").catch(() => {}); // else the screen goes dark meanwhile
  socket.send("join");
  sendPictures(stream);
});

at("stop").addEventListener("click", () => {
  socket.send("leave");
  stop();
  say(texts.over);
});

async function sendPictures(from) {
  while (stream === from && socket.readyState === WebSocket.OPEN) {
    if (live && socket.bufferedAmount === 0 && video.videoWidth) await sendPicture();
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}

async function sendPicture() {
  const scale = Math.min(1, LONGER_SIDE / Math.max(video.videoWidth, video.videoHeight));
  canvas.width = Math.max(1, Math.round(scale * video.videoWidth));
  canvas.height = Math.max(1, Math.round(scale * video.videoHeight));
  canvas.getContext("2d").drawImage(video, 0, 0, canvas.width, canvas.height);
  for (const quality of QUALITIES) {
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", quality));
    if (blob && blob.size <= MOST_BYTES) {
      if (socket.readyState === WebSocket.OPEN) socket.send(await blob.arrayBuffer());
      return;
    }
  }
}

function stop() {
  stream?.getTracks().forEach((track) => track.stop());
  stream = null;
  live = false;
  video.hidden = at("stop").hidden = true;
  at("start").hidden = texts === null;
}
