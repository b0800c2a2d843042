// The page Play: of images or of a table, as the model was trained.
import { ask, byId, tell } from "./common.js";
import { startImages } from "./images.js";
import { startTable } from "./table.js";

try {
  const about = await ask("/api/about");
  const rows = about.kind === "images" ? `images of ${about.height}×${about.width} pixels` : `rows of ${about.columns.length} columns`;
  byId("about").textContent = `${about.name} · ${about.model}, trained on ${rows} of ${about.classes.length} classes`;
  document.title = `Play: ${about.name} – mmdgm`;
  if (about.kind === "images") startImages(about);
  else startTable(about);
} catch (error) {
  tell(error.message);
}
