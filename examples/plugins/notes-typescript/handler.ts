// The handler of notes-typescript: Node's own library only. Node 22.18 and newer run it as
// it is, by taking the types away: use no enum, no namespace and no parameter property.
//
// The host writes one JSON object a line to standard input and reads answers
// from standard output. Print for people with console.error.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";

// ---- the plugin's own part ----

const maxNotes = 1000;

/** A failure that the agent may read. Any other error tells it nothing. */
export class ToolError extends Error {
  data: { code: string; message: string; retriable: boolean };

  constructor(code: string, message: string, retriable = false) {
    super(message);
    this.data = { code, message, retriable };
  }
}

type Arguments = Record<string, unknown>;
type Tool = (group: string, args: Arguments) => unknown;

/** One file a group. A line is added in one write, so that other sessions' handlers do not mix with it. */
export function tools(dataDir: string): Record<string, Tool> {
  const file = (group: string) => join(dataDir, `${group}.jsonl`);
  const notes = (group: string): string[] => {
    try {
      return readFileSync(file(group), "utf8").split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return [];
      throw error;
    }
  };
  return {
    tsnote_add(group, args) {
      if (notes(group).length >= maxNotes) throw new ToolError("FULL", `There are ${maxNotes} notes already`);
      appendFileSync(file(group), JSON.stringify(args.text) + "\n");
      return { status: "added" };
    },
    tsnote_list(group, args) {
      const contains = String(args.contains ?? "");
      return { notes: notes(group).filter((note) => note.includes(contains)) };
    },
  };
}

// ---- the protocol ----

type Message = { id?: unknown; method?: string; params?: any };

class Unknown extends Error {}

export class Handler {
  tools: Record<string, Tool> = {};

  async handle(method: string, params: any): Promise<unknown> {
    switch (method) {
      case "initialize":
        this.tools = tools(params.data_dir);
        return {};
      case "handleRequest": {
        const { topic, group, payload } = params.envelope;
        const name = topic.replace(/^tool\.invoke\./, "");
        if (!Object.hasOwn(this.tools, name)) throw new Unknown(name);
        return await this.tools[name](group, payload.arguments);
      }
      case "shutdown":
        return null;
    }
    throw new Unknown(method);
  }

  async answer(message: Message): Promise<object> {
    const answer = { jsonrpc: "2.0", id: message.id };
    try {
      const result = (await this.handle(message.method!, message.params)) ?? null;
      JSON.stringify(result); // what is no JSON fails this call, and not the handler
      return { ...answer, result };
    } catch (error) {
      if (error instanceof ToolError) return { ...answer, error: { code: -32000, message: error.message, data: error.data } };
      if (error instanceof Unknown) return { ...answer, error: { code: -32601, message: "unknown method" } };
      console.error(error);
      return { ...answer, error: { code: -32603, message: "internal plugin error" } };
    }
  }
}

function main() {
  const handler = new Handler();
  let rest = "";
  process.stdin.setEncoding("utf8");
  process.stdin.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n"); // readline would also end lines at U+2028
    rest = lines.pop()!;
    for (const line of lines) void serve(handler, JSON.parse(line));
  });
}

async function serve(handler: Handler, message: Message) {
  if (message.id === undefined || message.method === undefined) return; // events and cancellations need no answer
  process.stdout.write(JSON.stringify(await handler.answer(message)) + "\n");
  if (message.method === "shutdown") process.stdin.destroy(); // nothing is left to do, so the process ends
}

if (import.meta.main ?? process.argv[1]?.endsWith("handler.ts")) main();
