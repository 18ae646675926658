package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.concurrent.CancellationException;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.java.exception.ForbiddenException;
import org.apache.rocketmq.client.java.exception.UnauthorizedException;

/** A server that asks for credentials: what the users of lib/auth.py may do, and what they are refused. */
final class Auth {
    private static final String APP = "auth-app";

    /** What the user may do: all of it, to the end. */
    static String exchange(Lab lab) throws Exception {
        lab.actAs(APP);
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(lab.primer().build()));
        producer.send(lab.message("signed").build());
        MessageView got = reader.one(Duration.ofSeconds(20));
        check("signed".equals(Lab.label(got)), "another message: %s", got);
        reader.consumer.ack(got);
        return "";
    }

    static String wrongKey(Lab lab) {
        lab.actAs("auth-guessed", "not-its-secret");
        return refused(UnauthorizedException.class, () -> send(lab, lab.topic()));
    }

    static String disabledUser(Lab lab) {
        lab.actAs("auth-disabled");
        return refused(UnauthorizedException.class, () -> send(lab, lab.topic()));
    }

    static String noTopicRight(Lab lab) {
        lab.actAs(APP);
        refused(ForbiddenException.class, () -> receive(lab));
        return refused(ForbiddenException.class, () -> send(lab, lab.topic()));
    }

    /**
     * A client's first message to the server names its group and topics. When that is refused, the client waits for an answer of
     * another kind, gives up and does not tell why (5.2.0, ClientSessionImpl.onNext). With a group that the user has a right on, it
     * starts.
     */
    static String noGroupRight(Lab lab) throws Exception {
        lab.actAs(APP);
        send(lab, lab.topic());
        lab.step("starting a consumer with a right on its group");
        lab.reader("java-auth-right-key", lab.topic(), FilterExpression.SUB_ALL);
        return refused(IllegalStateException.class, () -> receive(lab));
    }

    /** A prefix allows both topics; the rule for the name of one of them denies. */
    static String deny(Lab lab) throws Exception {
        lab.actAs(APP);
        send(lab, lab.topic());
        // The route is allowed, and then the producer tells the server its topics: see noGroupRight.
        return refused(CancellationException.class, () -> send(lab, lab.topic() + "-exact"));
    }

    static String source(Lab lab) throws Exception {
        exchange(lab);
        return refused(ForbiddenException.class, () -> send(lab, lab.topic() + "-far"));
    }

    private static void send(Lab lab, String topic) throws Exception {
        lab.step("sending to " + topic);
        lab.producer().send(lab.message(topic, "signed").build());
    }

    private static void receive(Lab lab) throws Exception {
        lab.step("receiving from " + lab.topic());
        lab.reader(lab.group(), lab.topic(), FilterExpression.SUB_ALL).consumer.receive(1, Reader.INVISIBLE);
    }

    /** Does what must be refused, and returns how it was. */
    private static String refused(Class<? extends Exception> wanted, Lab.Sending call) {
        try {
            call.send();
        } catch (Exception refusal) {
            Throwable last = refusal;
            for (Throwable cause = refusal; cause != null; cause = cause.getCause()) {
                if (wanted.isInstance(cause)) {
                    return cause.getMessage();
                }
                last = cause;
            }
            throw new Scenario.Broken("refused for another reason: " + last);
        }
        throw new Scenario.Broken("accepted");
    }
}
