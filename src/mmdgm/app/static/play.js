// The page Play.
import { ask, byId, tell } from "./common.js";

try {
  const about = await ask("/api/about");
  byId("about").textContent = `${about.name} · fitted on ${about.fitted_on}`;
} catch (error) {
  tell(error.message);
}
