// The official client of MCP for TypeScript. Its arguments are the library's main module, the URL of the server, a token,
// and the answers to questions, in order, as JSON: an answer is the result of an elicitation.
// Each line that comes in is a request, {"method", ...parameters}; each that goes out is {"result"}, {"error"}, with the
// questions since the line before.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , main, url, token, given] = process.argv;
const at = (path) => import(new URL(path, pathToFileURL(main)));
const { Client } = await import(pathToFileURL(main));
const { StreamableHTTPClientTransport } = await at('./streamableHttp.js');
const { ElicitRequestSchema } = await at('../types.js');

const answers = JSON.parse(given);
const capabilities = answers === null ? {} : { elicitation: {} };
const client = new Client({ name: 'test', version: '1' }, { capabilities });
let questions = [];
if (answers !== null) {
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    questions.push(params);
    return answers.shift();
  });
}
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

for await (const line of createInterface({ input: process.stdin })) {
  const { method, ...parameters } = JSON.parse(line);
  questions = [];
  let outcome;
  try {
    outcome = { result: await client[method](parameters) };
  } catch (error) {
    outcome = { error: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify({ ...outcome, questions })}\n`);
}
await client.close();
