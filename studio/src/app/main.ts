import "./app.css";
import { define } from "../elements/elements";
import { ApplicationElement, preload } from "./Application";
import type { Config } from "./config";

const place = document.getElementById("app");
if (place) {
  const config = JSON.parse(place.dataset.config ?? "{}") as Config;
  const tag = `${config.prefix}-application`;
  define(config.prefix);
  if (!customElements.get(tag)) customElements.define(tag, ApplicationElement);
  const application = document.createElement(tag) as ApplicationElement;
  application.config = config;
  preload(config);
  place.append(application);
}
