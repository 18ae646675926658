import { runScenarios, runTogether, skip } from './lib/harness.mjs';
import * as auth from './scenarios/auth.mjs';
import * as messages from './scenarios/messages.mjs';
import * as filters from './scenarios/filters.mjs';
import * as fifo from './scenarios/fifo.mjs';
import * as delay from './scenarios/delay.mjs';
import * as transactions from './scenarios/transactions.mjs';
import * as lite from './scenarios/lite.mjs';
import * as priorities from './scenarios/priorities.mjs';
import * as push from './scenarios/push.mjs';
import * as simple from './scenarios/simple.mjs';
import * as sharing from './scenarios/sharing.mjs';
import * as refusals from './scenarios/refusals.mjs';

const seconds = (n) => n * 1000;

const scenarios = [
  // First, because it takes longest: Apache wakes no waiting poll for a retry, so each one can cost a whole poll.
  { name: 'push-retry-dlq', run: push.retryDlq, limit: seconds(240) },
  { name: 'normal', run: messages.normal, limit: seconds(60) },
  { name: 'tag-filter', run: filters.tagFilter, limit: seconds(60) },
  { name: 'sql-filter', run: filters.sqlFilter, limit: seconds(60) },
  { name: 'fifo-order', run: fifo.fifoOrder, limit: seconds(120) },
  { name: 'delay', run: delay.delay, limit: seconds(60) },
  { name: 'recall', run: delay.recall, limit: seconds(60) },
  { name: 'tx-commit', run: transactions.commit, limit: seconds(60) },
  { name: 'tx-rollback', run: transactions.rollback, limit: seconds(60) },
  { name: 'tx-check', run: transactions.check, limit: seconds(180) },
  { name: 'simple-ack', run: simple.ack, limit: seconds(60) },
  { name: 'simple-no-ack', run: simple.noAck, limit: seconds(60) },
  { name: 'change-invisible', run: simple.changeInvisible, limit: seconds(75) },
  { name: 'stale-handle', run: simple.staleHandle, limit: seconds(60) },
  { name: 'priority', run: priorities.order, limit: seconds(60) },
  { name: 'lite', run: lite.push, limit: seconds(180) },
  { name: 'lite-simple', run: () => skip('lite topics are for push consumers') },
  { name: 'share-queue', run: sharing.shareQueue, limit: seconds(60) },
  { name: 'batch-send', run: () => skip('a send takes one message') },
  { name: 'type-mismatch', run: refusals.typeMismatch, limit: seconds(60) },
  { name: 'body-4mib', run: refusals.body4MiB, limit: seconds(60) },
  { name: 'unknown-topic', run: refusals.unknownTopic, limit: seconds(60) },
  { name: 'tls', run: messages.tls, limit: seconds(60) },
  { name: 'plaintext', run: messages.plaintext, limit: seconds(60) },
  // Takes the server away from everyone, so it runs alone after the others.
  { name: 'resume-after-restart', run: sharing.resumeAfterRestart, limit: seconds(180), alone: true },
];

/** For a server that asks for credentials. */
const authScenarios = [
  { name: 'auth-right-key', run: auth.exchange },
  { name: 'auth-prefix', run: auth.exchange },
  { name: 'auth-source', run: auth.source },
  { name: 'auth-no-group-right', run: auth.noGroupRight },
  { name: 'auth-no-topic-right', run: auth.noTopicRight },
  { name: 'auth-deny', run: auth.deny },
  { name: 'auth-disabled-user', run: auth.disabledUser },
  { name: 'auth-wrong-key', run: auth.wrongKey },
];

const names = process.argv.slice(2);
const signed = authScenarios.filter(({ name }) => names[0] === 'auth' || names.includes(name));
process.exit(signed.length > 0 ? await runTogether('node', signed) : await runScenarios('node', scenarios, names));
