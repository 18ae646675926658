// Plain messages: everything a producer sets arrives as it was.
import { connect } from 'node:net';

import { check, checkEqual, skip } from '../lib/harness.mjs';
import { receive } from '../lib/clients.mjs';

export async function normal(clients) {
  const { topic } = clients;
  const consumer = await clients.simpleConsumer();
  const producer = await clients.producer();
  const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  const sent = {
    topic,
    tag: clients.tag,
    keys: ['order-1', 'customer-2'],
    properties: new Map([['color', 'red'], ['größe', '✓ 42']]),
    body,
  };
  const receipt = await producer.send(sent);

  const [arrival] = await receive(consumer, 1);
  check(arrival, 'the message did not arrive');
  const { message } = arrival;
  checkEqual(message.messageId, receipt.messageId, 'message id');
  checkEqual(message.topic, topic, 'topic');
  checkEqual(message.tag, sent.tag, 'tag');
  checkEqual([...message.keys].sort(), [...sent.keys].sort(), 'keys');
  checkEqual([...message.properties].sort(), [...sent.properties].sort(), 'properties');
  check(message.body.equals(body), 'the body changed');
  check(!message.corrupted, 'the body digest does not match');
  checkEqual(message.deliveryAttempt, 1, 'delivery attempt');
}

/** The client verifies the certificate; which one to trust stands in its environment. */
export async function tls(clients) {
  if (process.env.INTEROP_SERVER !== 'redstart') skip('it verifies certificates, and Apache keeps its own to itself');
  await normal(clients);
}

/** The port answers HTTP/2 without TLS: a raw preface first, then the client with TLS off. */
export async function plaintext(clients) {
  const frameType = await firstFrameType();
  checkEqual(frameType, 4, 'type of the first frame after a clear-text HTTP/2 preface (4 is SETTINGS)');
  const { topic } = clients;
  const producer = await clients.producer({ sslEnabled: false });
  const receipt = await producer.send({ topic, tag: clients.tag, body: Buffer.from('in the clear') });
  check(receipt.messageId, 'no message id');
}

function firstFrameType() {
  const [host, port] = process.env.INTEROP_ENDPOINT.split(':');
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port) });
    socket.setTimeout(5_000, () => socket.destroy(new Error('no HTTP/2 answer')));
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('closed before a whole frame header')));
    socket.on('connect', () => {
      const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
      socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), emptySettings]));
    });
    let answer = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      answer = Buffer.concat([answer, chunk]);
      if (answer.length < 9) return;
      resolve(answer[3]);
      socket.destroy();
    });
  });
}
