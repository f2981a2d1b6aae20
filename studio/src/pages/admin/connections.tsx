import { useState } from "react";
import type { Connection } from "../../api/records";
import type { JsonObject } from "../../api/types";
import { problemOf } from "../../elements/context";
import { Icon } from "../../kit/icons";
import { JsonBlock } from "../../kit/JsonView";
import { Status } from "../../kit/kit";
import { Named, Refusal } from "../../kit/named";
import { brief, visible } from "../../kit/safe";
import { type Collection, type Context, text } from "./collection";

const list = (title: string): JsonObject => ({ type: "array", title, items: { type: "string" } });
const plain = (title: string, description = ""): JsonObject => ({ type: "string", title, ...(description ? { description } : {}) });
const choice = (title: string, options: [string, string][], first?: string): JsonObject => ({
  title, oneOf: options.map(([value, label]) => ({ const: value, title: label })), ...(first ? { default: first } : {}),
});

/** The fields of `config`, of each kind. A secret that is set and left empty stays as it is. */
function configOf(kind: string, { t }: Context, isNew: boolean): JsonObject {
  const label = (name: string) => t(`connections.config.${name}`);
  const secret = (name: string): JsonObject => ({ ...plain(label(name), isNew ? "" : t("connections.keep")), format: "password" });
  const hosts = { ...list(label("hosts")), description: t("connections.hostsHint") };
  const needed = (...names: string[]) => ({ required: names.filter((name) => isNew || !["apiKey", "clientSecret"].includes(name)) });
  const group = (properties: JsonObject, required: object): JsonObject => ({ type: "object", title: t("connections.config"), properties, ...required });
  if (kind === "api_key") return group({ apiKey: secret("apiKey"), header: plain(label("header")), hosts }, needed("apiKey"));
  if (kind === "mcp") {
    const headers = { type: "object", title: label("headers"), description: t("connections.headersHint") };
    return group({ url: plain(label("url")), headers, clientId: plain(label("clientId")), clientSecret: secret("clientSecret"), scopes: list(label("scopes")) }, needed("url"));
  }
  return group({
    authorizeUrl: plain(label("authorizeUrl")), tokenUrl: plain(label("tokenUrl")), revocationUrl: plain(label("revocationUrl")),
    clientId: plain(label("clientId")), clientSecret: secret("clientSecret"), scopes: list(label("scopes")),
    grant: choice(label("grant"), [["authorization_code", t("connections.grant.authorization_code")], ["client_credentials", t("connections.grant.client_credentials")]]),
    tokenAuth: choice(label("tokenAuth"), [["basic", "basic"], ["post", "post"]]), hosts,
  }, needed("tokenUrl", "clientId"));
}

const isSet = (value: unknown) => typeof value === "object" && value !== null && (value as JsonObject).set === true;

/** The config without what the server keeps to itself. */
function shownConfig(config: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(config).filter(([, value]) => !isSet(value)).map(([name, value]) => {
    const inner = name === "headers" && typeof value === "object" && value !== null && !Array.isArray(value);
    return [name, inner ? shownConfig(value as JsonObject) : value];
  }));
}

const KINDS = ["api_key", "oauth2", "mcp"];

export const connections: Collection<Connection> = {
  list: "connections", kinds: ["connection"], icon: "link",
  id: (one) => one.id,
  name: (one) => one.name,
  columns: [
    { text: "admin.status", width: "150px", show: (one) => <Status value={one.status} /> },
    { text: "admin.name", width: "minmax(120px, 2fr)", show: (one) => <b className="title">{brief(one.name, 120)}</b> },
    { text: "connections.provider", width: "minmax(80px, 1fr)", wide: true, show: (one) => brief(one.provider, 60) },
    { text: "connections.kind", width: "minmax(80px, 1fr)", wide: true, show: (one, { t }) => t(`connections.kind.${one.kind}`) },
    { text: "connections.checked", width: "minmax(90px, 1fr)", wide: true, show: (one, { ago, t }) => (one.lastCheckedAt ? ago(one.lastCheckedAt) : t("connections.unused")) },
  ],
  mayChange: (me) => me.scopes.includes("connections:write"),
  form: {
    merges: true,
    schema: (value, context, before) => {
      const kind = before?.kind ?? (text(value.kind) || "api_key");
      const { t } = context;
      return {
        type: "object", required: ["name", "provider", "ownership", "config", before ? "status" : "kind"],
        properties: {
          name: { ...plain(t("admin.name")), minLength: 1 }, provider: { ...plain(t("connections.provider"), t("connections.providerHint")), minLength: 1 },
          ...(before ? {} : { kind: choice(t("connections.kind"), KINDS.map((one) => [one, t(`connections.kind.${one}`)]), "api_key") }),
          ownership: choice(t("connections.ownership"), [["organization", t("connections.ownership.organization")], ["user", t("connections.ownership.user")]], "organization"),
          config: configOf(kind, context, before === null),
          ...(before ? { status: choice(t("admin.status"), [["active", t("status.active")], ["disabled", t("status.disabled")]]) } : {}),
        },
      };
    },
    value: (before) => ({
      name: before.name, provider: before.provider, ownership: before.ownership, config: shownConfig(before.config),
      status: before.status === "disabled" ? "disabled" : "active",
    }),
    // What belongs to another kind is not sent with this one.
    body: (value) => {
      const kind = text(value.kind);
      const own: Record<string, string[]> = {
        api_key: ["apiKey", "header", "hosts"], mcp: ["url", "headers", "clientId", "clientSecret", "scopes"],
        oauth2: ["authorizeUrl", "tokenUrl", "revocationUrl", "clientId", "clientSecret", "scopes", "grant", "tokenAuth", "hosts"],
      };
      const config = (value.config ?? {}) as JsonObject;
      if (!kind) return value;
      return { ...value, config: Object.fromEntries(Object.entries(config).filter(([name]) => own[kind]?.includes(name))) };
    },
  },
  details: (one, { t, dateTime }) => [
    ["admin.status", <span key="s"><Status value={one.status} />{one.statusReason && <span className="muted"> <Named text={visible(one.statusReason)} /></span>}</span>],
    ["connections.provider", visible(one.provider)],
    ["connections.kind", t(`connections.kind.${one.kind}`)],
    ["connections.ownership", t(`connections.ownership.${one.ownership}`)],
    ["connections.checked", one.lastCheckedAt ? dateTime(one.lastCheckedAt) : t("connections.unused")],
    ["connections.config", <JsonBlock key="c" value={one.config} label={t("connections.config")} />],
  ],
  Extra: Authorize,
};

/** The way to the service, where the user grants the access. The change stream reports when it is done. */
function Authorize({ one, context, mayChange }: { one: Connection; context: Context; mayChange: boolean }) {
  const { t } = context;
  const [problem, setProblem] = useState<string | null>(null);
  const [url, setUrl] = useState<string | null>(null);
  const needs = ["needs_authorization", "expired", "error"].includes(one.status);
  if (one.kind === "api_key" || !mayChange || (one.kind === "mcp" && !needs)) return null;
  const start = async () => {
    setProblem(null);
    // At once, or the browser takes it for a popup that nobody asked for.
    const target = window.open("", "_blank");
    try {
      const address = new URL(await context.records.authorize(one.id));
      if (address.protocol !== "https:" && address.protocol !== "http:") throw new TypeError(address.protocol);
      setUrl(address.href);
      if (target) {
        target.opener = null;
        target.location.href = address.href;
      }
    } catch (error) {
      target?.close();
      setProblem(problemOf(error).message);
    }
  };
  return (
    <div className="section">
      {needs && <div className="notice wait"><Icon name="waiting" /><span>{t("connections.authorizeHint")}</span></div>}
      <Refusal text={problem} />
      <div className="row wrap">
        <button type="button" className={`button${needs ? " primary" : ""}`} onClick={() => void start()}><Icon name="link" />{t(needs ? "connections.authorize" : "connections.authorizeAgain")}</button>
        {url && <a href={url} target="_blank" rel="noopener noreferrer">{t("connections.authorizeOpen")}</a>}
      </div>
    </div>
  );
}
