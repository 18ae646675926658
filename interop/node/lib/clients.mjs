// The official clients of one scenario: made here, closed together when it ends.
import { randomBytes } from 'node:crypto';

import rocketmq from 'rocketmq-client-nodejs';

import { sleep } from './harness.mjs';

const { LitePushConsumerImpl, Producer, SimpleConsumer, PushConsumer } = rocketmq;

export const SERVER = process.env.INTEROP_SERVER ?? 'redstart';
const ENDPOINT = process.env.INTEROP_ENDPOINT ?? '127.0.0.1:8081';

/** Shortest long poll the Apache proxy grants; asking for less would still wait this long. */
const POLL_MS = 5_000;

const verbose = (...args) => process.env.INTEROP_VERBOSE && console.error(...args);
const logger = { info: verbose, warn: verbose, error: verbose, debug: () => {} };

export class Clients {
  #lang;
  #tls;
  #credentials;
  #open = [];

  constructor(lang, scenario) {
    this.#lang = lang;
    this.#tls = scenario === 'tls';
    /** Topic and group are prepared under the scenario's name, see topics.txt. */
    this.topic = this.named(scenario);
    this.group = this.named(scenario);
    /** Tag of every message of this run; subscriptions name it, so no run sees what an earlier one left behind. */
    this.tag = `run-${randomBytes(4).toString('hex')}`;
  }

  /** The user of the clients made from now on. Its secret is what lib/auth.py gave it, unless another is to be tried. */
  actAs(user, secret = `secret-of-${user}`) {
    this.#credentials = { accessKey: user, accessSecret: secret };
  }

  named(suffix) {
    return `${this.#lang}-${suffix}`;
  }

  async producer(options = {}) {
    const producer = new Producer({ ...this.#options(), topics: [this.topic], ...options });
    await this.#start(producer);
    return producer;
  }

  /** A consumer whose group has a position: a new group may start at the newest message of its first receive. */
  async simpleConsumer({ group = this.group, topic = this.topic, filter = this.tag } = {}) {
    const consumer = new SimpleConsumer({
      ...this.#options(),
      consumerGroup: group,
      subscriptions: new Map([[topic, filter]]),
      awaitDuration: POLL_MS,
    });
    await this.#start(consumer);
    await prime(consumer);
    return consumer;
  }

  async pushConsumer(consume) {
    const consumer = new PushConsumer({
      ...this.#options(),
      consumerGroup: this.group,
      subscriptions: new Map([[this.topic, this.tag]]),
      messageListener: { consume },
    });
    await this.#start(consumer);
    return consumer;
  }

  async litePushConsumer(consume) {
    const consumer = new LitePushConsumerImpl({
      ...this.#options(),
      consumerGroup: this.group,
      bindTopic: this.topic,
      messageListener: { consume },
    });
    await this.#start(consumer);
    return consumer;
  }

  /**
   * After a restart Apache takes connections before its name server knows the topics again, and then keeps the answer
   * "no route" for a while; so nobody else asks before one topic can be written.
   */
  async awaitServer() {
    const deadline = Date.now() + 60_000;
    while (Date.now() < deadline) {
      try {
        const producer = await this.producer();
        return await producer.send({ topic: this.topic, tag: this.tag, body: Buffer.from('is anybody there') });
      } catch {
        await sleep(1_000);
      }
    }
  }

  /** A push consumer's shutdown waits out its long polls; the process does not wait for that. */
  async close() {
    const closing = this.#open.map((client) => client.shutdown().catch(verbose));
    await Promise.race([Promise.all(closing), sleep(3_000)]);
  }

  #options() {
    const credentials = this.#credentials ? { sessionCredentials: this.#credentials } : {};
    return { endpoints: ENDPOINT, namespace: '', sslEnabled: this.#tls, logger, ...credentials };
  }

  async #start(client) {
    await client.startup();
    this.#open.push(client);
  }
}

/** The first receive may meet a server that has not stored the client's settings yet, hence the second try. */
async function prime(consumer) {
  try {
    await consumer.receive(1, 10_000);
  } catch {
    await sleep(1_000);
    await consumer.receive(1, 10_000);
  }
}

/**
 * Receives until `count` messages came or `within` ms passed. Each message is acknowledged unless `ack` is false.
 * Returns [{ message, at }] in the order of arrival.
 */
export async function receive(consumer, count, { within = 20_000, invisible = 30_000, batch = 16, ack = true } = {}) {
  const deadline = Date.now() + within;
  const arrivals = [];
  while (arrivals.length < count && Date.now() < deadline) {
    for (const message of await consumer.receive(batch, invisible)) {
      arrivals.push({ message, at: Date.now() });
      if (ack) await consumer.ack(message);
    }
  }
  return arrivals;
}

/** Messages that still arrive in one long poll; a scenario that is done expects none. */
export async function leftovers(consumer) {
  return (await receive(consumer, 1, { within: 1 })).map(({ message }) => message.body.toString());
}
