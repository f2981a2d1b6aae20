// The official client of AG-UI. Its arguments are the library's main module, the URL of the agent, and a token.
// Each line that comes in is the parameters of a run, with `message` for a new message of the user; each that goes out is
// what the client made of it: {"events", "messages", "result", "pending", "error"}.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

console.debug = console.log = console.warn = console.error;
const { HttpAgent } = await import(pathToFileURL(process.argv[2]));
const [, , , url, token, threadId] = process.argv;
const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });

for await (const line of createInterface({ input: process.stdin })) {
  const { message, ...parameters } = JSON.parse(line);
  if (message !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: message });
  const events = [];
  let error = null;
  let result = null;
  try {
    ({ result } = await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) }));
  } catch (caught) {
    error = String(caught.message ?? caught);
  }
  const { messages, pendingInterrupts } = agent;
  process.stdout.write(`${JSON.stringify({ events, messages, result: result ?? null, pending: pendingInterrupts, error })}\n`);
}
