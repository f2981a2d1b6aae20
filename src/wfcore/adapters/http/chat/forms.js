"use strict";

// The form of an approval: fields made of a JSON Schema with their defaults, the data in them, and the errors at them.
// Nothing is submitted that nobody has chosen: a choice without a default begins empty.

const INPUTS = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url" };
const SCALARS = ["string", "number", "integer"];
const NUMBERS = ["number", "integer"];

class FieldError extends Error {}

function formOf(card, schema, id) {
  const required = schema?.required ?? [];
  const fields = Object.entries(schema?.properties ?? {}).map(([name, one]) => {
    const row = appendElement(card, one.type === "array" && one.items?.enum ? "fieldset" : "div", "", "field");
    const field = fieldOf(row, name, one, required.includes(name), `${id} ${name}`);
    const note = appendElement(row, "p", "", "field-error");
    note.id = `${id} ${name} error`;
    field.control.setAttribute("aria-describedby", [one.description && `${id} ${name} help`, note.id].filter(Boolean).join(" "));
    return { name, note, ...field };
  });
  const mark = (field, text) => {
    field.note.textContent = text;
    field.control.setAttribute("aria-invalid", String(text !== ""));
  };

  // The data; throws FieldError, with the text at its field, for what cannot be read
  function read() {
    const data = {};
    let faulty = null;
    for (const field of fields) {
      mark(field, "");
      try {
        const value = field.read();
        if (value !== undefined) data[field.name] = value;
      } catch (error) {
        mark(field, error instanceof SyntaxError ? "This is not valid JSON." : error.message);
        faulty ??= field;
      }
    }
    if (faulty) throw new FieldError(faulty.note.textContent);
    return schema ? data : undefined;
  }

  // Shows the server's errors at their fields; whether each of them has one
  function showErrors(error) {
    if (error instanceof FieldError) return true;
    const issues = error.issues ?? [];
    const placed = issues.map(({ path, message }) => {
      const below = path.replace(/^decisions\[0\]\./, "").replace(/^data\./, "");
      const field = fields.find(({ name }) => below === name || below.startsWith(`${name}.`) || below.startsWith(`${name}[`));
      if (field) mark(field, message);
      return field;
    });
    return issues.length > 0 && placed.every(Boolean);
  }

  const focusError = () => fields.find(({ note }) => note.textContent !== "")?.control.focus();
  return { read, showErrors, focusError };
}

function fieldOf(row, name, schema, required, id) {
  const title = schema.title ?? name;
  const field = schema.enum ? choiceField : schema.type === "boolean" ? booleanField
    : schema.type === "array" && schema.items?.enum ? manyField
    : schema.type === "array" && SCALARS.includes(schema.items?.type) ? linesField
    : ["array", "object"].includes(schema.type) ? jsonField : textField;
  const label = appendElement(row, field === manyField ? "legend" : "label", title);
  if (required && field !== booleanField) label.append(" *");
  if (schema.description) appendElement(row, "p", schema.description, "quiet").id = `${id} help`;
  const made = field(row, schema, required);
  if (field !== manyField) label.htmlFor = made.control.id = id;
  return made;
}

function choiceField(row, schema, required, labels = schema.enum.map(pretty)) {
  const control = appendElement(row, "select");
  appendElement(control, "option");
  for (const text of labels) appendElement(control, "option", text);
  const chosen = "default" in schema ? schema.enum.findIndex((one) => pretty(one) === pretty(schema.default)) : -1;
  control.selectedIndex = chosen + 1;
  control.required = required;
  return { control, read: () => (control.selectedIndex > 0 ? schema.enum[control.selectedIndex - 1] : undefined) };
}

function booleanField(row, schema, required) {
  if (!("default" in schema)) return choiceField(row, { enum: [true, false] }, required, ["Yes", "No"]);
  const control = appendElement(row, "input");
  control.type = "checkbox";
  control.checked = schema.default === true;
  return { control, read: () => control.checked };
}

function manyField(row, schema) {
  const boxes = schema.items.enum.map((value) => {
    const line = appendElement(row, "label", "", "choice");
    const box = appendElement(line, "input");
    box.type = "checkbox";
    box.checked = (schema.default ?? []).some((one) => pretty(one) === pretty(value));
    line.append(pretty(value));
    return [box, value];
  });
  return { control: boxes[0][0], read: () => boxes.filter(([box]) => box.checked).map(([, value]) => value) };
}

function linesField(row, schema, required) {
  const control = appendElement(row, "textarea");
  control.rows = 3;
  control.placeholder = "One on each line";
  control.value = (schema.default ?? []).join("\n");
  control.required = required && schema.minItems > 0;
  const numeric = NUMBERS.includes(schema.items.type);
  return {
    control,
    read: () => {
      const lines = control.value.split("\n").map((line) => line.trim()).filter(Boolean);
      if (!lines.length && !required && !("default" in schema)) return undefined;
      return lines.map((line) => {
        if (numeric && Number.isNaN(Number(line))) throw new FieldError(`“${line}” is not a number.`);
        return numeric ? Number(line) : line;
      });
    },
  };
}

function jsonField(row, schema, required) {
  const control = appendElement(row, "textarea");
  control.rows = 4;
  control.value = "default" in schema ? JSON.stringify(schema.default, null, 2) : "";
  control.required = required;
  return { control, read: () => (control.value.trim() === "" ? undefined : JSON.parse(control.value)) };
}

function textField(row, schema, required) {
  const numeric = NUMBERS.includes(schema.type);
  const control = appendElement(row, schema.maxLength > 200 ? "textarea" : "input");
  if (control.localName === "input") control.type = numeric ? "number" : INPUTS[schema.format] ?? "text";
  if (numeric) {
    const whole = schema.type === "integer";
    const least = schema.minimum ?? (whole && schema.exclusiveMinimum !== undefined ? schema.exclusiveMinimum + 1 : undefined);
    const most = schema.maximum ?? (whole && schema.exclusiveMaximum !== undefined ? schema.exclusiveMaximum - 1 : undefined);
    if (least !== undefined) control.min = least;
    if (most !== undefined) control.max = most;
    control.step = schema.multipleOf ?? (whole ? 1 : "any");
  } else {
    if (schema.minLength) control.minLength = schema.minLength;
    if (schema.maxLength) control.maxLength = schema.maxLength;
  }
  const local = control.type === "datetime-local";
  if ("default" in schema) control.value = local ? toLocal(schema.default) : pretty(schema.default);
  control.required = required;
  return {
    control,
    read: () => {
      if (control.value === "") return undefined;
      if (numeric) return Number(control.value);
      return local ? new Date(control.value).toISOString() : control.value;
    },
  };
}

// The time of this browser's zone, as its control shows it
function toLocal(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

