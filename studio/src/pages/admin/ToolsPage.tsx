import { useState } from "react";
import type { CatalogTool, ToolServer } from "../../api/records";
import type { Caller } from "../../api/types";
import { useChanges, useLoaded } from "../../elements/context";
import { useLanguage } from "../../i18n/context";
import { toolName } from "../../i18n/names";
import { Icon } from "../../kit/icons";
import { JsonBlock } from "../../kit/JsonView";
import { Empty, Failure, Loading, VirtualRows } from "../../kit/kit";
import { Named } from "../../kit/named";
import { brief, visible } from "../../kit/safe";
import { PlaceLink } from "../parts";
import { Title, useContextOf, useFocusReturn } from "./CollectionPage";

const TEMPLATE = "minmax(140px, 1.4fr) minmax(100px, 1fr) minmax(120px, 2fr)";

/** The tools that the caller can use, and the servers that they come from, with what is wrong with them. */
export function ToolsPage({ me }: { me: Caller }) {
  const context = useContextOf(me);
  const { t, records } = context;
  const { value, problem, loading, reload } = useLoaded("tools", () => records.tools());
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  useChanges(["connection"], reload, 600);
  const needle = search.trim().toLowerCase();
  const rows = (value?.tools ?? []).filter((one) => !needle || `${one.id} ${toolName(context, one)} ${one.group ?? ""} ${one.description}`.toLowerCase().includes(needle));
  const tool = value?.tools.find((one) => one.id === chosen);
  const box = useFocusReturn(chosen);
  return (
    <div className="page admin" ref={box}>
      <div className="head">
        <h1>{t("nav.tools")}</h1>
        <div style={{ width: 240 }}>
          <label className="sr" htmlFor="search">{t("tools.search")}</label>
          <input id="search" type="search" className="input" placeholder={t("tools.search")} value={search} onChange={(event) => setSearch(event.target.value)} />
        </div>
      </div>
      {value && value.servers.length > 0 && <Servers servers={value.servers} />}
      <div className={`split${tool ? "" : " alone"}`}>
        <div className="main">
          {problem && !value ? <Failure problem={problem} onRetry={reload} /> : loading && !value ? <Loading rows={8} />
            : !rows.length ? <Empty icon="tool" title={t("tools.empty")} /> : (
              <>
                <div className="columns" aria-hidden="true" style={{ gridTemplateColumns: TEMPLATE }}>
                  <span>{t("admin.name")}</span><span className="wide">{t("tools.group")}</span><span className="wide">{t("tools.description")}</span>
                </div>
                <VirtualRows count={rows.length} height={47} label={t("nav.tools")} row={(index) => <Line key={rows[index]!.id} tool={rows[index]!} chosen={chosen} onChoose={setChosen} />} />
              </>
            )}
        </div>
        <aside className="side" aria-label={t("admin.details")} tabIndex={0} hidden={!tool}>
          {tool && (
            <div className="section">
              <Title text={<span className="text">{visible(toolName(context, tool))}</span>} onClose={() => setChosen(null)} />
              <p className="text"><Named text={visible(tool.description)} /></p>
              <dl className="facts">
                <div className="fact"><dt>{t("tools.id")}</dt><dd className="mono">{visible(tool.id)}</dd></div>
                <div className="fact"><dt>{t("tools.group")}</dt><dd>{visible(tool.group ?? "–")}</dd></div>
                <div className="fact"><dt>{t("tools.repeat")}</dt><dd>{t(tool.idempotent ? "tools.repeatable" : "tools.once")}</dd></div>
              </dl>
              <h3>{t("tools.parameters")}</h3>
              <JsonBlock value={tool.parameters} label={t("tools.parameters")} />
              {tool.outputSchema && <><h3>{t("tools.output")}</h3><JsonBlock value={tool.outputSchema} label={t("tools.output")} /></>}
            </div>
          )}
        </aside>
      </div>
    </div>
  );

  function Servers({ servers }: { servers: ToolServer[] }) {
    return (
      <ul className="notices" aria-label={t("tools.servers")}>
        {servers.map((one) => (
          <li key={one.connectionId} className={`notice ${one.problem ? "bad" : "ok"}`}>
            <Icon name={one.problem ? "error" : "done"} />
            <div className="grow">
              <PlaceLink to={{ page: "administration", section: "connections", id: one.connectionId }}>{brief(one.name, 120)}</PlaceLink>{" "}
              <span className="text">{one.problem ? visible(one.problem) : t("tools.responds")}</span>
              {Object.keys(one.leftOut).length > 0 && (
                <details>
                  <summary>{t("tools.leftOut", { count: Object.keys(one.leftOut).length })}</summary>
                  <ul>{Object.entries(one.leftOut).map(([name, why]) => <li key={name}><span className="mono">{brief(name, 80)}</span> {brief(String(why), 200)}</li>)}</ul>
                </details>
              )}
            </div>
          </li>
        ))}
      </ul>
    );
  }
}

function Line({ tool, chosen, onChoose }: { tool: CatalogTool; chosen: string | null; onChoose: (id: string) => void }) {
  const language = useLanguage();
  return (
    <div role="listitem" data-record={tool.id} style={{ height: 47 }}>
      <button type="button" className={`line record${tool.id === chosen ? " current" : ""}`} aria-pressed={tool.id === chosen} style={{ gridTemplateColumns: TEMPLATE }} onClick={() => onChoose(tool.id)}>
        <span style={{ minWidth: 0 }}>
          <span className="title clip" style={{ display: "block" }}>{brief(toolName(language, tool), 100)}</span>
          <span className="sub clip" style={{ display: "block" }}>{brief(tool.id, 100)}</span>
        </span>
        <span className="clip wide muted">{brief(tool.group ?? tool.provider ?? "", 60)}</span>
        <span className="clip wide"><Named text={brief(tool.description, 200)} /></span>
      </button>
    </div>
  );
}
