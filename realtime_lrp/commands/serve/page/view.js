// The picture alone, for OBS and projectors.
import { connect } from "./link.js";

connect(document.getElementById("view"), {});
