// Runs scenarios side by side, each within its time limit, and prints one result line per scenario.
import { Clients } from './clients.mjs';

class Skip extends Error {}

/** Ends a scenario that the released client cannot express. */
export function skip(reason) {
  throw new Skip(reason);
}

/** Fails the scenario unless `condition` holds. */
export function check(condition, reason) {
  if (!condition) throw new Error(reason);
}

/** Fails the scenario unless both values have the same JSON form. */
export function checkEqual(actual, expected, what) {
  const [a, e] = [JSON.stringify(actual), JSON.stringify(expected)];
  check(a === e, `${what}: expected ${e}, got ${a}`);
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const oneLine = (error) =>
  String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 400);

/** Scenarios wait far more than they work, so a few share the clock. */
const PARALLEL = Number(process.env.INTEROP_PARALLEL ?? 5);

export async function runScenarios(lang, scenarios, names) {
  const unknown = names.filter((name) => !scenarios.some((s) => s.name === name));
  if (unknown.length > 0) {
    console.error(`unknown scenario: ${unknown.join(', ')}`);
    return 2;
  }
  const chosen = scenarios.filter((s) => names.length === 0 || names.includes(s.name));
  const probe = new Clients(lang, 'plaintext');
  await probe.awaitServer();
  await probe.close();

  const together = await runTogether(lang, chosen.filter((s) => !s.alone));
  let failed = together !== 0;
  for (const scenario of chosen.filter((s) => s.alone)) failed = !(await report(lang, scenario)) || failed;
  return failed ? 1 : 0;
}

/** Runs scenarios side by side; the exit code. */
export async function runTogether(lang, scenarios) {
  const queue = [...scenarios];
  let failures = 0;
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      if (!(await report(lang, next))) failures += 1;
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  return failures === 0 ? 0 : 1;
}

async function report(lang, { name, run, limit = 60_000 }) {
  const clients = new Clients(lang, name);
  const started = Date.now();
  try {
    const note = await withLimit(Promise.resolve().then(() => run(clients)), limit);
    console.log(`PASS ${lang} ${name}${note ? ` ${note}` : ''}`);
    return true;
  } catch (error) {
    if (error instanceof Skip) {
      console.log(`SKIP ${lang} ${name}: ${error.message} (client lacks the feature)`);
      return true;
    }
    console.log(`FAIL ${lang} ${name}: ${oneLine(error)}`);
    return false;
  } finally {
    await clients.close();
    console.error(`${lang} ${name} took ${((Date.now() - started) / 1000).toFixed(1)} s`);
  }
}

async function withLimit(work, limit) {
  let timer;
  const expired = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${limit / 1000} s`)), limit);
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}
