// The scenarios of scenarios-others.txt with ali-ons, side by side: they mostly wait.
import ons from 'ali-ons';

const { Consumer, Message, Producer } = ons;

const NAMESRV = process.env.INTEROP_NAMESRV ?? '127.0.0.1:9876';
const LIMIT_MS = 200_000;
const PATIENCE_MS = 60_000;
const LATE_MS_MAX = 5_000;
/** Levels 1 and 2 of lib/levels.py. */
const LEVELS_MS = { 1: 1_000, 2: 3_000 };

const complain = (...words) => console.error(...words);
const logger = { debug() {}, info() {}, warn: complain, error: complain };

class Skip extends Error {}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function check(condition, reason) {
  if (!condition) throw new Error(reason);
}

async function eventually(condition, ms = PATIENCE_MS) {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) return false;
    await sleep(50);
  }
  return true;
}

const same = (some, others) => JSON.stringify([...some].sort()) === JSON.stringify([...others].sort());

const numbers = (stem, count) => Array.from({ length: count }, (_, n) => `${stem}${n}`);

/** What a listener was given, in the order of arrival. */
class Inbox {
  all = [];

  take(arrival) {
    this.all.push(arrival);
    return true;
  }

  labels(stem = '') {
    return this.all.map(({ label }) => label).filter((label) => label.startsWith(stem));
  }

  async get(label, ms) {
    check(await eventually(() => this.labels().includes(label), ms), `${label} did not come, only ${this.labels()}`);
    return this.all.find((arrival) => arrival.label === label);
  }

  async exactly(labels, ms) {
    await eventually(() => this.all.length >= labels.length, ms);
    await sleep(300);
    check(same(this.labels(), labels), `got ${this.labels()} instead of ${labels}`);
  }
}

let instances = 0;

/** The clients of one scenario. They live as long as the process. */
class Clients {
  constructor(name) {
    this.name = name;
  }

  #options() {
    instances += 1;
    return {
      // Asked for the addresses of name servers when there are none, as on Aliyun; the client insists on having one.
      httpclient: {},
      nameSrv: NAMESRV,
      instanceName: `ali-ons-${instances}`,
      pollNameServerInteval: 5_000,
      logger,
    };
  }

  async producer() {
    const producer = new Producer({ ...this.#options(), producerGroup: `${this.name}-producer`, sendMsgTimeout: 10_000 });
    producer.on('error', complain);
    await producer.ready();
    return producer;
  }

  /** `take` returns false if the message is to come again. */
  async listen(take, { expression = '*', isBroadcast = false } = {}) {
    const consumer = new Consumer({ ...this.#options(), consumerGroup: this.name, isBroadcast });
    consumer.on('error', complain);
    consumer.subscribe(this.name, expression, async (message) => {
      const { msgId: id, topic, tags: tag, keys: key, body, reconsumeTimes: attempt } = message;
      const label = body.toString().split('\n', 1)[0];
      // What the handler returns is heeded at the first attempt only; a throw always.
      if (!take({ id, topic, tag, key, body, attempt, label, at: Date.now() })) throw new Error('to be tried again');
    });
    await consumer.ready();
  }

  message(label, { tag = '', key = '', level = 0, shardingKey = '', body = label } = {}) {
    const message = new Message(this.name, tag, body);
    if (key) message.keys = [key];
    if (level) message.delayTimeLevel = level;
    if (shardingKey) message.shardingKey = shardingKey;
    return message;
  }
}

async function sent(producer, message) {
  const result = await producer.send(message);
  check(result.sendStatus === 'SEND_OK', `send status ${result.sendStatus}`);
  return result;
}

async function send(clients) {
  const inbox = new Inbox();
  await clients.listen((arrival) => inbox.take(arrival));
  const producer = await clients.producer();
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, value) => value));
  const ids = new Map();
  for (const label of numbers('m', 10)) {
    const body = Buffer.concat([Buffer.from(`${label}\n`), bytes]);
    ids.set(label, (await sent(producer, clients.message(label, { tag: 't', key: `k-${label}`, body }))).msgId);
  }
  await inbox.exactly([...ids.keys()]);
  for (const { id, topic, tag, key, body, attempt, label } of inbox.all) {
    check(topic === clients.name && tag === 't' && key === `k-${label}` && attempt === 0,
      `${label} has topic ${topic}, tag ${tag}, key ${key}, attempt ${attempt}`);
    check(body.subarray(label.length + 1).equals(bytes), `the body of ${label} changed`);
    check(id === ids.get(label), `${label} has id ${id}, sent as ${ids.get(label)}`);
  }
  return 'synchronous only';
}

async function tags(clients) {
  const inbox = new Inbox();
  await clients.listen((arrival) => inbox.take(arrival), { expression: 'a || b' });
  const producer = await clients.producer();
  for (let n = 0; n < 5; n++) {
    for (const tag of ['a', 'b', 'c']) await sent(producer, clients.message(`${tag}${n}`, { tag }));
  }
  // One queue: the last message proves that nothing unwanted comes after it.
  await sent(producer, clients.message('last', { tag: 'a' }));
  await inbox.get('last');
  await inbox.exactly([...numbers('a', 5), ...numbers('b', 5), 'last'], 1_000);
}

async function orderly(clients) {
  const inbox = new Inbox();
  await clients.listen((arrival) => inbox.take(arrival));
  const producer = await clients.producer();
  const keys = ['red', 'blue', 'green'];
  for (let n = 0; n < 10; n++) {
    for (const shardingKey of keys) await sent(producer, clients.message(`${shardingKey}${n}`, { shardingKey }));
  }
  await eventually(() => inbox.all.length >= 30);
  for (const key of keys) {
    check(String(inbox.labels(key)) === String(numbers(key, 10)), `${key} came as ${inbox.labels(key)}`);
  }
  check(inbox.all.length === 30, `${inbox.all.length} deliveries`);
  return 'a failed message leaves the order in this client';
}

async function delay(clients) {
  const inbox = new Inbox();
  await clients.listen((arrival) => inbox.take(arrival));
  const producer = await clients.producer();
  // A consumer that has only just begun takes what was due meanwhile all at once.
  await sent(producer, clients.message('first', { level: 1 }));
  await inbox.get('first');
  const due = {};
  // The later one first: the order of sending must not matter.
  for (const level of [2, 1]) {
    due[`level${level}`] = Date.now() + LEVELS_MS[level];
    await sent(producer, clients.message(`level${level}`, { level }));
  }
  let latest = 0;
  for (const [label, at] of Object.entries(due)) {
    const late = (await inbox.get(label)).at - at;
    check(late >= 0 && late <= LATE_MS_MAX, `${label} came ${late} ms late`);
    latest = Math.max(latest, late);
  }
  await sleep(300);
  check(String(inbox.labels()) === 'first,level1,level2', `came as ${inbox.labels()}`);
  return `${latest} ms late`;
}

async function retry(clients) {
  const inbox = new Inbox();
  const failures = [];
  await clients.listen((arrival) => {
    if (arrival.label !== 'bad' || failures.length === 2) return inbox.take(arrival);
    failures.push(arrival.attempt);
    return false;
  });
  const producer = await clients.producer();
  await sent(producer, clients.message('bad', { tag: 't', key: 'k' }));
  await sent(producer, clients.message('good'));
  const taken = await inbox.get('bad', 2 * PATIENCE_MS);
  check(String([...failures, taken.attempt]) === '0,1,2', `attempts ${[...failures, taken.attempt]}`);
  check(taken.tag === 't' && taken.key === 'k', `it came again with tag ${taken.tag}, key ${taken.key}`);
  await inbox.exactly(['bad', 'good'], 1_000);
  return 'without dead letters';
}

async function transaction() {
  throw new Skip('no transactions');
}

async function broadcast(clients) {
  const inboxes = [new Inbox(), new Inbox()];
  for (const inbox of inboxes) await clients.listen((arrival) => inbox.take(arrival), { isBroadcast: true });
  const producer = await clients.producer();
  // A broadcasting consumer may begin at the newest message. There is one queue: who has got one message gets all later ones.
  check(await eventually(async () => {
    await sent(producer, clients.message('primer'));
    await sleep(500);
    return inboxes.every((inbox) => inbox.all.length > 0);
  }), 'no primer came');
  const labels = numbers('m', 20);
  for (const label of labels) await sent(producer, clients.message(label));
  for (const inbox of inboxes) {
    await eventually(() => inbox.labels('m').length >= labels.length);
    await sleep(300);
    check(same(inbox.labels('m'), labels), `got ${inbox.labels('m')}`);
  }
}

const scenarios = { retry, orderly, delay, broadcast, tags, send, transaction };

/** Prints the scenario's line; true unless it failed. */
async function report(name, run) {
  const limit = sleep(LIMIT_MS).then(() => { throw new Error(`not done after ${LIMIT_MS / 1000} s`); });
  try {
    const note = await Promise.race([run(new Clients(`ali-ons-${name}`)), limit]);
    console.log(`PASS ali-ons ${name}${note ? ` ${note}` : ''}`);
    return true;
  } catch (problem) {
    if (problem instanceof Skip) {
      console.log(`SKIP ali-ons ${name}: ${problem.message} (client lacks the feature)`);
      return true;
    }
    complain(problem);
    console.log(`FAIL ali-ons ${name}: ${String(problem?.message ?? problem).replace(/\s+/g, ' ').slice(0, 400)}`);
    return false;
  }
}

const wanted = process.argv.slice(2);
const chosen = Object.entries(scenarios).filter(([name]) => wanted.length === 0 || wanted.includes(name));
const results = await Promise.all(chosen.map(([name, run]) => report(name, run)));
process.exit(results.every(Boolean) ? 0 : 1);
