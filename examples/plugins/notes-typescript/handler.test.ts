// Run with: node --test

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Handler } from "./handler.ts";

async function started(t: { after(f: () => void): void }) {
  const folder = mkdtempSync(join(tmpdir(), "plugin-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const handler = new Handler();
  await handler.handle("initialize", { data_dir: folder });
  return (tool: string, args: object, group = "main"): Promise<any> =>
    handler.answer({ id: 1, method: "handleRequest", params: { envelope: { topic: `tool.invoke.${tool}`, group, payload: { arguments: args } } } });
}

test("what was added is listed", async (t) => {
  const call = await started(t);
  await call("tsnote_add", { text: "one" });
  assert.deepEqual((await call("tsnote_list", {})).result, { notes: ["one"] });
});

test("groups do not see each other", async (t) => {
  const call = await started(t);
  await call("tsnote_add", { text: "one" }, "a");
  assert.deepEqual((await call("tsnote_list", {}, "b")).result, { notes: [] });
});

test("what it does not know is an error", async (t) => {
  const call = await started(t);
  assert.equal((await call("nothing", {})).error.code, -32601);
});
