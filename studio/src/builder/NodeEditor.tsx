import { type KeyboardEvent, type ReactNode, useId, useMemo, useState } from "react";
import type { Editing } from "../api/editing";
import type { GraphLimits, GraphNode, Json, JsonObject, NodeType, Structure, Tool } from "../api/types";
import { ExpressionInput } from "../expressions/ExpressionInput";
import { ChoicesReading, Finders } from "../forms/Choice";
import { Form, KeepsText, Message, type TextInput, TextInputs } from "../forms/Form";
import { type FieldError, fieldOf, gravest, withValue } from "../forms/schema";
import { useLanguage } from "../i18n/context";
import { outcomeName, toolName } from "../i18n/names";
import type { Language } from "../i18n/texts";
import { Icon } from "../kit/icons";
import { isEqual, isObject } from "../kit/json";
import { Named } from "../kit/named";
import type { Find } from "../kit/Picker";
import { brief, visible } from "../kit/safe";
import { handlesOf, removable, titleOf } from "./document";
import type { Found } from "./editor";
import { GroupInput } from "./Marks";
import { Params } from "./Params";
import { problemText } from "./problemText";
import { Questions } from "./Questions";
import { finderOf, type References, useReferences } from "./references";

export interface Catalog {
  types: Map<string, NodeType>;
  tools: Tool[];
  models: string[];
  limits: GraphLimits;
}

interface Props {
  node: GraphNode;
  structure: Structure;
  catalog: Catalog;
  /** Reads what fields can refer to. */
  editing: Editing;
  /** The UUID of the organization, which is that of the group of all. */
  organization: string;
  issues: Found[];
  canEdit: boolean;
  onData: (data: JsonObject, key: string) => void;
  onRename: (id: string) => void;
  onConnect: (handle: string | null, target: string) => void;
  onCut: (edge: string) => void;
  onSelect: (id: string) => void;
  onDelete: () => void;
  /** Tries the node; without it, nothing is offered. */
  trial: ReactNode;
  onClose: () => void;
}

/** How texts are shown: some are expressions or templates, others long or short. */
const TEXTS: Record<string, JsonObject> = {
  when: { format: "expression" }, forEach: { format: "expression" }, message: { format: "template" }, concurrencyKey: { format: "template" }, instructions: { format: "textarea" }, handle: { maxLength: 80 },
  allowSelfApproval: { default: true },
};
const INPUTS: Record<string, TextInput> = {
  expression: ({ schema: _, ...props }) => <ExpressionInput mode="expression" className="mono" {...props} />,
  template: ({ schema: _, ...props }) => <ExpressionInput mode="template" {...props} />,
};

/** The outcome of an approval without a decision, by its value. */
const TIMEOUTS = ["approve", "deny", "error"];

/** The schema of a node's data with the choices that this server has. `params` and the label have inputs of their own. */
function schemaOf(type: NodeType, node: GraphNode, catalog: Catalog, references: References, named: (schema: JsonObject) => JsonObject, { t, has }: Pick<Language, "t" | "has">): JsonObject {
  const properties = { ...(isObject(type.dataSchema.properties) ? type.dataSchema.properties : {}) };
  const title = (name: string) => (has(`part.${name}`) ? t(`part.${name}`) : null);
  const parts = Object.fromEntries(Object.entries(isObject(type.dataSchema.$defs) ? type.dataSchema.$defs : {}).map(([name, part]) => [name, isObject(part) ? named({ ...part, description: "", ...(title(name) ? { title: title(name)! } : {}) }) : part]));
  const choice = (name: string, options: { const: Json; title: string }[]) => {
    const before = properties[name];
    if (!isObject(before) || !options.length) return;
    const held = node.data?.[name];
    const known = held === undefined || options.some((one) => isEqual(one.const, held));
    const { type: _, minimum: __, maximum: ___, minLength: ____, enum: _____, ...rest } = before;
    properties[name] = { ...rest, oneOf: known ? options : [...options, { const: held, title: String(held), deprecated: true, description: t("pick.missing") }] };
  };
  choice("toolId", catalog.tools.map((tool) => ({ const: tool.id, title: tool.name && tool.name !== tool.id ? `${toolName({ t, has }, tool)} (${tool.id})` : tool.id })));
  choice("model", catalog.models.map((model) => ({ const: model, title: model })));
  choice("onTimeout", TIMEOUTS.map((one) => ({ const: one, title: t(`timeout.${one}`) })));
  if (isObject(properties.tool_restrictions) && catalog.tools.length) {
    const tools = catalog.tools.map((tool) => ({ const: tool.id, title: toolName({ t, has }, tool), description: tool.id }));
    properties.tool_restrictions = { format: "reference", type: "array", items: { oneOf: tools } };
  }
  for (const [pointer, schema] of references) {
    const [, name, inner] = pointer.split("/") as [string, string, string?];
    if (inner === undefined) properties[name] = schema;
    else if (name !== "params") properties[name] = withProperty(properties[name], parts, inner, schema, named);
  }
  // A list of parts is shown as JSON, a text as a text.
  if (isObject(properties.instructions) && !Array.isArray(node.data?.instructions)) {
    const { anyOf: _, ...rest } = properties.instructions;
    properties.instructions = { ...rest, type: "string" };
  }
  delete properties.params;
  const required = Array.isArray(type.dataSchema.required) ? type.dataSchema.required : [];
  const first = ["toolId", "agent_id", "message", "branches", "approvers"];
  const rank = (name: string) => (required.includes(name) ? -1 : first.includes(name) ? first.indexOf(name) : first.length);
  const ordered = Object.entries(properties).sort(([a], [b]) => rank(a) - rank(b));
  return named({ ...type.dataSchema, properties: Object.fromEntries(ordered), $defs: parts });
}

/** The object schema `of`, or the part that it refers to, with `schema` as its property `name`. */
function withProperty(of: Json | undefined, parts: JsonObject, name: string, schema: JsonObject, named: (schema: JsonObject) => JsonObject): JsonObject {
  const { $ref, ...own } = isObject(of) ? of : {};
  const part = typeof $ref === "string" ? parts[$ref.replace("#/$defs/", "")] : undefined;
  const whole = { ...(isObject(part) ? part : {}), ...own };
  return named({ ...whole, properties: { ...(isObject(whole.properties) ? whole.properties : {}), [name]: schema } });
}

/** The parameters of before that another tool has too. */
function fitting(params: Json | undefined, schema: JsonObject): JsonObject {
  if (!isObject(params)) return {};
  const known = isObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(Object.entries(params).filter(([name]) => schema.additionalProperties !== false || Object.hasOwn(known, name)));
}

/** Nobody who is named is the same as no field, and not an empty list, which the server refuses. */
function withoutNobody(data: JsonObject, pointer: string): JsonObject {
  const name = pointer.split("/")[1] ?? "";
  const people = data[name];
  if ((name !== "approvers" && name !== "escalateTo") || !isObject(people)) return data;
  const left = Object.entries(people).filter(([, list]) => !Array.isArray(list) || list.length);
  const { [name]: _, ...rest } = data;
  return left.length ? { ...rest, [name]: Object.fromEntries(left) } : rest;
}

/** The settings of one node: its name, its data by the schema of its type, and its edges. */
export function NodeEditor({ node, structure, catalog, editing, organization, issues, canEdit, onData, onRename, onConnect, onCut, onSelect, onDelete, trial, onClose }: Props) {
  const { t, has } = useLanguage();
  const findingOf = (found: Found): FieldError => ({ rule: "server", message: problemText(found.message, { t, has }), isWarning: found.severity === "warning" });
  const id = useId();
  const type = catalog.types.get(node.type);
  const data = node.data ?? {};
  const { references, reading } = useReferences(node, organization, editing);
  const finders = useMemo(() => ({ people: finderOf(editing) }), [editing]);
  const schema = useMemo(() => {
    // The titles of fields in the language of the page, where it has them.
    const named = (part: JsonObject): JsonObject => ({
      ...part, properties: Object.fromEntries(Object.entries(isObject(part.properties) ? part.properties : {}).map(([name, one]) =>
        [name, isObject(one) && has(`data.${name}`) ? { ...one, title: t(`data.${name}`), ...(has(`data.${name}.hint`) ? { description: t(`data.${name}.hint`) } : {}), ...TEXTS[name] } : one])),
    });
    return type ? schemaOf(type, node, catalog, references, named, { t, has }) : null;
  }, [type, node.data?.toolId, node.data?.model, references, Array.isArray(node.data?.instructions), catalog, t, has]);
  const wrong = [...new Set(issues.map((issue) => issue.at.pointer.split("/")[1] ?? ""))].sort().join();
  const fields = useMemo(() => {
    if (!schema) return { main: null, more: null, answered: [] };
    const whole = fieldOf(schema);
    if (whole.kind !== "group") return { main: whole, more: null, answered: [] };
    const open = new Set(MAIN[node.type] ?? []);
    const isMain = (name: string) => open.has(name) || data[name] !== undefined || wrong.split(",").includes(name);
    return {
      main: { ...whole, fields: whole.fields.filter((field) => isMain(field.name) && !(field.name in ANSWERED)) },
      more: { ...whole, fields: whole.fields.filter((field) => !isMain(field.name)) },
      answered: whole.fields.filter((field) => field.name in ANSWERED),
    };
  }, [schema, Object.keys(data).sort().join(), wrong]);
  // The others are shown at their fields.
  const general = issues.filter((issue) => issue.at.edge !== undefined || issue.at.pointer === "" || issue.at.pointer === "/type" || issue.at.pointer === "/id");
  const errors = useMemo(() => {
    const found = new Map<string, FieldError>();
    for (const issue of issues.filter((one) => !general.includes(one))) found.set(issue.at.pointer, gravest([...found.has(issue.at.pointer) ? [found.get(issue.at.pointer)!] : [], findingOf(issue)])!);
    return found;
  }, [issues, t, has]);
  const change = (pointer: string, value: Json | undefined) => {
    const next = withoutNobody((withValue(data, pointer, value) ?? {}) as JsonObject, pointer);
    const chosen = pointer === "/toolId" ? catalog.tools.find((one) => one.id === value) : undefined;
    onData(chosen ? { ...next, params: fitting(next.params, chosen.parameters) } : next, `${node.id}${pointer}`);
  };
  const tool = node.type === "action" ? catalog.tools.find((one) => one.id === data.toolId) : undefined;
  const kind = `type.${node.type}`;
  return (
    <ChoicesReading value={reading}><div className="nodeeditor">
      <div className="section">
        <div className="row between">
          <h2 className="clip"><Icon name={node.type} /> {brief(titleOf(node), 80)}</h2>
          <button type="button" className="button plain square" aria-label={t("common.close")} onClick={onClose}><Icon name="close" /></button>
        </div>
        {type && <p className="hint">{has(kind) ? `${t(kind)}. ` : ""}{has(`${kind}.hint`) ? t(`${kind}.hint`) : visible(type.description)}</p>}
        {general.map((issue, index) => <Message key={index} error={findingOf(issue)} />)}
        <div className="field">
          <label htmlFor={`${id}-label`}>{t("builder.label")}<span className="hint"> · {t("form.optional")}</span></label>
          <input id={`${id}-label`} className="input" disabled={!canEdit} value={typeof data.label === "string" ? data.label : ""} maxLength={200}
            onChange={(event) => change("/label", event.target.value || undefined)} />
        </div>
        <IdInput id={`${id}-id`} value={node.id} taken={structure.nodes.map((one) => one.id)} disabled={!canEdit} onRename={onRename} />
        <GroupInput structure={structure} value={typeof data.group === "string" ? data.group : ""} disabled={!canEdit} onGroup={(name) => change("/group", name || undefined)} />
      </div>
      {fields.main && fields.main.kind === "group" && fields.main.fields.length > 0 && (
        <div className="section"><DataForm finders={finders} field={fields.main} value={data} errors={errors} disabled={!canEdit} onChange={change} /></div>
      )}
      {fields.answered.map((field) => (
        <div className="section" key={field.name}>
          <Questions field={field} reads={ANSWERED[field.name]!(node.id)} value={data[field.name]} errors={errors} disabled={!canEdit} onChange={(next) => change(field.pointer, next)} />
        </div>
      ))}
      {tool && (
        <div className="section">
          <h3>{t("builder.params")}</h3>
          {issues.filter((issue) => issue.at.pointer === "/params").map((issue, index) => <Message key={index} error={findingOf(issue)} />)}
          {tool.description && <p className="hint"><Named text={visible(brief(tool.description, 600))} /></p>}
          <Params key={tool.id} schema={tool.parameters} references={references} value={isObject(data.params) ? data.params : {}} errors={errors} disabled={!canEdit}
            onChange={(name, value) => {
              const rest = Object.fromEntries(Object.entries(isObject(data.params) ? data.params : {}).filter(([one]) => one !== name));
              onData({ ...data, params: value === undefined ? rest : { ...rest, [name]: value } }, `${node.id}/params/${name}`);
            }} />
        </div>
      )}
      {fields.more && fields.more.fields.length > 0 && (
        <div className="section">
          <details>
            <summary>{t("builder.more")}</summary>
            <div style={{ marginTop: 12 }}><DataForm finders={finders} field={fields.more} value={data} errors={errors} disabled={!canEdit} onChange={change} /></div>
          </details>
        </div>
      )}
      <Connections node={node} structure={structure} catalog={catalog} canEdit={canEdit} onConnect={onConnect} onCut={onCut} onSelect={onSelect} />
      {trial && <div className="section">{trial}</div>}
      {canEdit && removable(structure, [node.id]).length > 0 && (
        <div className="section">
          <div><button type="button" className="button danger" onClick={onDelete}>{t("builder.delete")}</button></div>
        </div>
      )}
    </div></ChoicesReading>
  );
}

const DataForm = ({ finders, ...props }: Parameters<typeof Form>[0] & { finders: Record<string, Find> }) => (
  <KeepsText value={true}><Finders value={finders}><TextInputs value={INPUTS}><Form {...props} /></TextInputs></Finders></KeepsText>
);

/** The fields that are shown at once; the others are behind "More", until they have a value. */
const MAIN: Record<string, string[]> = {
  start: ["inputSchema"],
  action: ["toolId"],
  condition: ["branches"],
  agent: ["agent_id", "message", "instructions", "model"],
  humanApproval: ["message", "approvers", "requiredApprovals", "formSchema", "timeoutSeconds"],
};

/** The fields that say what people fill in, and how expressions read it. */
const ANSWERED: Record<string, (id: string) => string> = {
  inputSchema: () => "input",
  formSchema: (id) => `nodes.${id}.output.data`,
};

function IdInput({ id, value, taken, disabled, onRename }: { id: string; value: string; taken: string[]; disabled: boolean; onRename: (id: string) => void }) {
  const { t } = useLanguage();
  const [text, setText] = useState(value);
  const bad = text !== value && (!text.trim() || taken.includes(text.trim()));
  const commit = () => {
    const next = bad || !text.trim() ? value : text.trim();
    setText(next);
    if (next !== value) onRename(next);
  };
  return (
    <div className="field">
      <label htmlFor={id}>{t("builder.id")}</label>
      <input id={id} className="input mono" value={text} disabled={disabled} maxLength={255} aria-invalid={bad || undefined} aria-describedby={`${id}-hint`} spellCheck={false}
        onChange={(event) => setText(event.target.value)} onBlur={commit} onKeyDown={(event) => event.key === "Enter" && commit()} />
      <p className={bad ? "problem" : "hint"} id={`${id}-hint`}>{bad ? t("builder.idTaken") : t("builder.idHint", { id: value })}</p>
    </div>
  );
}

/**
 * Opens the list of a choice that acts at once: in a closed list, as in Chrome on Windows and Linux, the first arrow key or letter
 * would choose already, and the next entry could not be reached. Where a browser does not open it, the keys do what they did.
 */
function openList(event: KeyboardEvent<HTMLSelectElement>) {
  if (event.ctrlKey || event.metaKey || event.altKey || !/^(Arrow\w+|Page\w+|Home|End|\S)$/u.test(event.key)) return;
  try {
    event.currentTarget.showPicker();
    event.preventDefault();
  } catch {
    // A page in a frame of another origin, or a browser without it.
  }
}

function Connections({ node, structure, catalog, canEdit, onConnect, onCut, onSelect }: Pick<Props, "node" | "structure" | "catalog" | "canEdit" | "onConnect" | "onCut" | "onSelect">) {
  const language = useLanguage();
  const { t } = language;
  const id = useId();
  const byId = new Map(structure.nodes.map((one) => [one.id, one]));
  const named = (other: string) => brief(byId.has(other) ? titleOf(byId.get(other)!) : other, 60);
  const on = (outcome: string, of: GraphNode | undefined) => brief(outcomeName(language, outcome, of?.type), 40);
  const out = structure.edges.filter((edge) => edge.source === node.id);
  const into = structure.edges.filter((edge) => edge.target === node.id);
  const known = handlesOf(node, catalog.types);
  const handles = [...new Set([...known, ...out.map((edge) => edge.sourceHandle ?? null)])];
  const targets = structure.nodes.filter((one) => one.id !== node.id && one.type !== "start");
  return (
    <div className="section">
      <h3>{t("builder.connections")}</h3>
      {canEdit && !targets.length && <p className="hint">{t("builder.noTargets")}</p>}
      {handles.map((handle, index) => (
        <div className="field" key={handle ?? ""} role="group" aria-labelledby={`${id}-${index}-handle`}>
          <span className="label" id={`${id}-${index}-handle`}>{handle === null ? t("builder.next") : t("builder.on", { handle: on(handle, node) })}</span>
          {out.filter((edge) => (edge.sourceHandle ?? null) === handle).map((edge) => (
            <div className="row between" key={edge.id}>
              <button type="button" className="child" onClick={() => onSelect(edge.target)}><Icon name="chevron" /><span className="clip">{named(edge.target)}</span></button>
              {canEdit && <button type="button" className="button plain square" aria-label={t("builder.cut", { name: named(edge.target) })} onClick={() => onCut(edge.id)}><Icon name="close" /></button>}
            </div>
          ))}
          {canEdit && known.includes(handle) && targets.length > 0 && (
            <>
              <label className="sr" htmlFor={`${id}-${index}`}>{t("builder.connectFrom", { handle: handle === null ? t("builder.next") : on(handle, node) })}</label>
              <select id={`${id}-${index}`} className="input" value="" onKeyDown={openList} onChange={(event) => event.target.value && onConnect(handle, event.target.value)}>
                <option value="">{t("builder.connect")}</option>
                {targets.filter((one) => !out.some((edge) => edge.target === one.id && (edge.sourceHandle ?? null) === handle))
                  .map((one) => <option key={one.id} value={one.id}>{named(one.id)}</option>)}
              </select>
            </>
          )}
        </div>
      ))}
      {into.length > 0 && (
        <div className="field">
          <span className="label">{t("builder.before")}</span>
          {into.map((edge) => (
            <button type="button" className="child" key={edge.id} onClick={() => onSelect(edge.source)}>
              <Icon name="back" /><span className="clip">{named(edge.source)}{edge.sourceHandle ? ` · ${on(edge.sourceHandle, byId.get(edge.source))}` : ""}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
