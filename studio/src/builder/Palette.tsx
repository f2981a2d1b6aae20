import { useMemo, useState } from "react";
import type { GraphNode, JsonObject, NodeType, Tool } from "../api/types";
import { useLanguage } from "../i18n/context";
import { toolName } from "../i18n/names";
import { Icon } from "../kit/icons";
import { readJson } from "../kit/json";
import { brief } from "../kit/safe";
import { NOTE } from "./annotations";
import { titleOf } from "./document";
import { DRAGGED } from "./EditorCanvas";

/** What a new node is made of. */
export interface Entry {
  type: string;
  base: string;
  data: JsonObject;
}

interface Row {
  key: string;
  title: string;
  hint: string;
  icon: string;
  entry: Entry;
}

const MOST = 60;

/** What nodes of a type begin with, so that they can be filled in and not only be wrong. */
const BEGIN: Record<string, JsonObject> = {
  condition: { branches: [{ handle: "yes", when: "" }] },
  humanApproval: { message: "" },
  agent: { message: "" },
};

/**
 * The kinds of nodes and the tools that can be added. An entry is chosen, or dragged onto the canvas. A search finds nodes
 * of the graph too; who cannot add any sees all of them.
 */
export function Palette({ nodes, types, hasStart, tools, onAdd, onFind }: {
  nodes: GraphNode[]; onFind: (node: string) => void;
  types: NodeType[];
  /** The graph has a start: no other one is offered. */
  hasStart: boolean; tools: Tool[]; onAdd: ((entry: Entry) => void) | undefined;
}) {
  const language = useLanguage();
  const { t, has } = language;
  const [search, setSearch] = useState("");
  const words = useMemo(() => search.toLowerCase().split(/\s+/).filter(Boolean), [search]);
  const found = useMemo(() => (words.length || !onAdd ? nodes.filter((node) => words.every((word) => `${titleOf(node)} ${node.id}`.toLowerCase().includes(word))) : []), [nodes, words, onAdd === undefined]);
  const groups = useMemo(() => {
    if (!onAdd) return [];
    const named = (type: NodeType) => (has(`type.${type.type}`) ? t(`type.${type.type}`) : type.title);
    const kinds: Row[] = types.filter((type) => (type.type !== "start" || !hasStart) && type.type !== "action").map((type) => ({
      key: type.type, title: named(type), hint: has(`type.${type.type}.hint`) ? t(`type.${type.type}.hint`) : type.description, icon: type.type,
      entry: { type: type.type, base: named(type), data: BEGIN[type.type] ?? {} },
    }));
    kinds.push({ key: NOTE, title: t("builder.note"), hint: t("builder.noteHint"), icon: "note", entry: { type: NOTE, base: NOTE, data: {} } });
    const found = new Map<string, Row[]>([[t("builder.steps"), kinds]]);
    for (const tool of tools) {
      const name = tool.group && tool.group !== "core" ? tool.group : t(tool.id.startsWith("core.") ? "builder.builtIn" : "builder.tools");
      const rows = found.get(name) ?? [];
      rows.push({
        key: tool.id, title: toolName(language, tool), hint: tool.description, icon: "action",
        entry: { type: "action", base: toolName(language, tool), data: { toolId: tool.id } },
      });
      found.set(name, rows);
    }
    const fits = (row: Row) => words.every((word) => `${row.title} ${row.key} ${row.hint}`.toLowerCase().includes(word));
    return [...found].map(([name, rows]) => ({ name, rows: rows.filter(fits) })).filter((group) => group.rows.length);
  }, [types, hasStart, tools, words, onAdd === undefined, t, has]);
  const label = t(onAdd ? "builder.search" : "builder.find");
  return (
    <div className="palette" part="palette">
      <label className="sr" htmlFor="palette-search">{label}</label>
      <input id="palette-search" type="search" className="input" placeholder={t("palette.search")} value={search} onChange={(event) => setSearch(event.target.value)} />
      <div className="entries">
        {found.length > 0 && (
          <section aria-label={t("builder.inGraph")}>
            <h2>{t("builder.inGraph")}</h2>
            {found.slice(0, MOST).map((node) => (
              <button key={node.id} type="button" className="entry" title={brief(node.id, 100)} onClick={() => onFind(node.id)}>
                <Icon name={node.type} />
                <span className="clip">{brief(titleOf(node), 60)}</span>
              </button>
            ))}
            {found.length > MOST && <p className="hint">{t("builder.narrow", { count: found.length - MOST })}</p>}
          </section>
        )}
        {groups.map((group) => (
          <section key={group.name} aria-label={brief(group.name, 60)}>
            <h2>{brief(group.name, 60)}</h2>
            {group.rows.slice(0, MOST).map((row) => (
              <button key={row.key} type="button" className="entry" title={brief(row.hint, 300)} draggable onClick={() => onAdd?.(row.entry)}
                onDragStart={(event) => event.dataTransfer.setData(DRAGGED, JSON.stringify(row.entry))}>
                <Icon name={row.icon} />
                <span className="clip">{brief(row.title, 60)}</span>
              </button>
            ))}
            {group.rows.length > MOST && <p className="hint">{t("builder.narrow", { count: group.rows.length - MOST })}</p>}
          </section>
        ))}
        {!groups.length && !found.length && <p className="hint pad">{t("builder.nothing")}</p>}
      </div>
    </div>
  );
}

/** The entry that a drag carries; null for any other text. */
export function entryIn(text: string, types: NodeType[]): Entry | null {
  try {
    const found = readJson(text) as Entry;
    return (found.type === NOTE || types.some((type) => type.type === found.type)) && typeof found.base === "string" && found.data && typeof found.data === "object" ? found : null;
  } catch {
    return null;
  }
}
