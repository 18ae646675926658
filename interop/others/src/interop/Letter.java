package interop;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** A message to send. Its label is the first line of its body: not every client carries properties. */
record Letter(String topic, String label, String tag, String key, byte[] body) {
    static Letter of(String topic, String label) {
        return new Letter(topic, label, "", "", label.getBytes(StandardCharsets.UTF_8));
    }

    Letter tagged(String newTag) {
        return new Letter(topic, label, newTag, key, body);
    }

    Letter keyed(String newKey) {
        return new Letter(topic, label, tag, newKey, body);
    }

    /** With every byte value after the label. */
    Letter withAllBytes() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(label.getBytes(StandardCharsets.UTF_8));
        bytes.write('\n');
        for (int value = 0; value < 256; value++) {
            bytes.write(value);
        }
        return new Letter(topic, label, tag, key, bytes.toByteArray());
    }

    static String label(byte[] body) {
        return new String(body, StandardCharsets.UTF_8).split("\n", 2)[0];
    }
}
