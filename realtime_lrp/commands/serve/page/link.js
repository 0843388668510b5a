// The connection: draws each picture, confirms it, and comes back by itself when it is lost.
//
// The server sends the next picture when the last one is on the screen. A page that is hidden
// draws nothing, confirms nothing and so gets nothing.

import { drawOn } from "./canvas.js";

const RETRY_MS = [500, 1000, 2000, 4000];
const VIEW = "v".charCodeAt(0);
const ENDED = 1012; // how the server closes connections when it ends
const HEAD_BYTES = 5; // what it is, and the latency or the length of the JSON

/** Shows the pictures on a canvas. `heard` has a function for each type of message; `lost` gets a
 * sentence about the connection, "" once it stands, `shown` the latency in milliseconds. `sendPicture`
 * returns the picture's number in this connection, 0 without one; `hold(true)` keeps pictures of the view from the canvas. */
export function connect(canvas, heard) {
  let socket = null;
  let tries = 0;
  let ended = false; // whether the server said that it ends
  let pictures = 0; // that this connection has sent
  let holds = false;
  let newest = null; // the last picture of the view

  function take(data, from) {
    const head = new DataView(data);
    const number = head.getUint32(1, true);
    if (head.getUint8(0) !== VIEW) {
      const fields = JSON.parse(new TextDecoder().decode(new Uint8Array(data, HEAD_BYTES, number)));
      heard[fields.type](fields, new Uint8Array(data, HEAD_BYTES + number));
    } else {
      newest = { data, latency: number / 10, from, owed: true };
      draw(newest);
    }
  }

  async function draw(one) {
    const jpeg = new Blob([new Uint8Array(one.data, HEAD_BYTES)], { type: "image/jpeg" });
    const picture = await createImageBitmap(jpeg).catch(() => null);
    requestAnimationFrame(() => {
      if (holds) return; // nor is it confirmed: no further one comes
      if (picture) { // else it cannot be decoded: the next one may be
        drawOn(canvas, picture, picture.width, picture.height);
        picture.close();
        heard.shown(one.latency);
      }
      confirm(one);
    });
  }

  /** Asks for the next picture, once for each. */
  function confirm(one) {
    if (one.owed && one.from.readyState === WebSocket.OPEN) one.from.send('{"type":"shown"}');
    one.owed = false;
  }

  function open() {
    const address = new URL("ws", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const opened = new WebSocket(address);
    socket = opened;
    pictures = 0;
    opened.binaryType = "arraybuffer";
    opened.onmessage = ({ data }) => {
      tries = 0;
      ended = false;
      if (data instanceof ArrayBuffer) {
        take(data, opened);
      } else {
        const message = JSON.parse(data);
        if (message.type === "role") heard.lost("");
        heard[message.type](message);
      }
    };
    opened.onclose = async ({ code, reason }) => {
      if (code === 1008) { // the server refuses what this page sent: coming back would not help
        heard.lost(`The server ended the connection: ${reason}. Reload the page.`);
        return;
      }
      ended ||= code === ENDED;
      heard.lost(reason && code === 1013 ? `${reason}.` : await whyLost(ended, tries));
      setTimeout(open, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
    };
  }

  open();
  const stands = () => socket?.readyState === WebSocket.OPEN;
  return {
    send(message) {
      if (stands()) socket.send(JSON.stringify(message));
    },
    sendPicture(jpeg) {
      if (!stands()) return 0;
      socket.send(jpeg);
      return ++pictures;
    },
    hold(on) {
      holds = on;
      if (!on && newest) draw(newest);
    },
  };
}

/** A sentence that says why there is no connection, also if the server said that it ends. */
async function whyLost(ended, tries) {
  try {
    const answer = await fetch("figures", { method: "HEAD", cache: "no-store" });
    if (answer.status === 401) {
      return "The server has a new token: scan the code again, or open the address that it printed.";
    }
  } catch {
    // it does not answer, or has a new certificate as well, of which a page is not told
  }
  if (tries > RETRY_MS.length) return "No connection. This page comes back by itself; if it does not, scan the code again.";
  return ended ? "The view was ended. This page goes on when it is started again." : "Connection lost. Trying again …";
}
