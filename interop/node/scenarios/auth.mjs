// A server that asks for credentials: what the users of lib/auth.py may do, and what they are refused.
import { check, checkEqual } from '../lib/harness.mjs';
import { receive } from '../lib/clients.mjs';

const UNAUTHORIZED = 40100;
const FORBIDDEN = 40300;

/** What the user may do: all of it, to the end. */
export async function exchange(clients) {
  clients.actAs('auth-app');
  const consumer = await clients.simpleConsumer();
  await send(clients);
  const bodies = (await receive(consumer, 1)).map(({ message }) => message.body.toString());
  checkEqual(bodies, ['signed'], 'bodies');
}

export async function wrongKey(clients) {
  clients.actAs('auth-guessed', 'not-its-secret');
  return refused(send(clients), UNAUTHORIZED);
}

export async function disabledUser(clients) {
  clients.actAs('auth-disabled');
  return refused(send(clients), UNAUTHORIZED);
}

/** No receive: of a refused route a consumer tells only that there is none. */
export async function noTopicRight(clients) {
  clients.actAs('auth-app');
  return refused(send(clients), FORBIDDEN);
}

export async function noGroupRight(clients) {
  clients.actAs('auth-app');
  await send(clients);
  return refused(clients.simpleConsumer(), FORBIDDEN);
}

/** A prefix allows both topics; the rule for the name of one of them denies. */
export async function deny(clients) {
  clients.actAs('auth-app');
  await send(clients);
  return refused(send(clients, clients.named('auth-deny-exact')), FORBIDDEN);
}

export async function source(clients) {
  await exchange(clients);
  return refused(send(clients, clients.named('auth-source-far')), FORBIDDEN);
}

async function send(clients, topic = clients.topic) {
  // It names no topics at its start, which drops the code of a refused route.
  const producer = await clients.producer({ topics: [] });
  await producer.send({ topic, tag: clients.tag, body: Buffer.from('signed') });
}

async function refused(call, code) {
  const error = await call.then(() => null, (reason) => reason);
  check(error, 'accepted');
  const text = `${error.name} ${error.code ?? ''} ${error.message}`.replace(/\s+/g, ' ');
  check(text.includes(code), `refused for another reason: ${text}`);
  return text.slice(0, 200);
}
