import "./app.css";
import "../elements/wfcore";
import { ApplicationElement, type Config, preload } from "./Application";

const place = document.getElementById("app");
if (place) {
  if (!customElements.get("wfcore-application")) customElements.define("wfcore-application", ApplicationElement);
  const application = document.createElement("wfcore-application") as ApplicationElement;
  application.config = JSON.parse(place.dataset.config ?? "{}") as Config;
  preload(new URL(location.href), application.config);
  place.append(application);
}
