package reflex;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The functions of {@code reflex_jni.c}, and values as they go through them. */
final class Native {
    static {
        String file = System.getProperty("reflex.library");
        if (file != null) System.load(file);
        else System.loadLibrary("reflex_jni");
    }

    /** Kinds of words in arguments. */
    static final byte NONE = 0, INT = 1, BOOL = 2, FLOAT = 3, VALUE = 4;

    private Native() {}

    static native void freeValue(long value);
    static native long copyValue(long value);
    static native int kind(long value);
    static native long word(long value);
    static native byte[] text(long value);
    static native long count(long value);
    static native long item(long value, int index);
    static native long scalar(byte[] kinds, long[] words);
    static native long string(byte[] text);
    static native long shape(long[] dims);
    static native long tuple(byte[] kinds, long[] words);
    static native long newTensor(int dtype, long[] shape);
    static native long viewOf(ByteBuffer buffer, int dtype, long[] shape);
    static native int dtype(long value);
    static native long[] dims(long value);
    static native ByteBuffer buffer(long value);
    static native void raise(byte[] kind, byte[] message);
    static native long function(PackedFunction body);
    static native void register(byte[] name, PackedFunction body);
    static native long lookup(byte[] name);
    static native long callFunction(long function, byte[] kinds, long[] words);
    static native byte[] version();
    static native long newEngine(int threads, byte[][] texts);
    static native void freeEngine(long engine);
    static native long load(long engine, byte[] path);
    static native long loadBytes(long engine, int format, byte[] model);
    static native void freeProgram(long program);
    static native void save(long program, byte[] path);
    static native long functionName(long program, int index);
    static native Object[] signature(long program, byte[] function, boolean outputs);
    static native long newSession(long program, int mode);
    static native void freeSession(long session);
    static native long call(long session, byte[] name, byte[] kinds, long[] words);
    static native long warmUp(long session, byte[] name, byte[] kinds, long[] words);
    static native void setFuel(long session, long fuel);
    static native void setDeadline(long session, long nanoseconds);
    static native long newCanceller(long session);
    static native void cancel(long canceller, boolean stop);
    static native void freeCanceller(long canceller);

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A name or a path, which ends at NUL in the library. */
    static byte[] name(String text) {
        if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("there is a NUL in the string");
        return bytes(text);
    }


    /** Makes an object of an owned value, which it takes. */
    static Object taken(long value) {
        switch (kind(value)) {
            case 5: return new Tensor(value);
            case 8: return new Function(value);
            case 9: return new Value(value, "value");
            default: break;
        }
        try {
            switch (kind(value)) {
                case 0: return null;
                case 1: return word(value);
                case 2: return word(value) != 0;
                case 3: return Double.longBitsToDouble(word(value));
                case 4: return new String(text(value), StandardCharsets.UTF_8);
                case 6: return items(value);
                default: return items(value).stream().mapToLong(item -> (Long) item).toArray();
            }
        } finally {
            freeValue(value);
        }
    }

    private static List<Object> items(long value) {
        List<Object> items = new ArrayList<>();
        for (int i = 0; i < count(value); i++) items.add(taken(item(value, i)));
        return items;
    }

    /** Calls a packed function in Java with values that it takes; 0 where it fails, with the error set. */
    static long invoke(PackedFunction body, long[] values) {
        try {
            Object[] args = new Object[values.length];
            for (int i = 0; i < args.length; i++) args[i] = taken(values[i]);
            Object answer = body.call(args);
            try (Arguments returned = new Arguments(answer)) {
                return returned.owned();
            }
        } catch (ReflexException error) {
            raise(bytes(error.kind()), bytes(String.valueOf(error.getMessage())));
        } catch (Throwable error) {
            raise(bytes(error.getClass().getSimpleName()), bytes(String.valueOf(error.getMessage())));
        }
        return 0;
    }
}
