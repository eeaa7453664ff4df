package reflex;

import java.util.ArrayList;
import java.util.List;

/** Values for a call. Handles among them stay open until this is closed. */
final class Arguments implements AutoCloseable {
    final byte[] kinds;
    final long[] words;
    private final List<Resource> held = new ArrayList<>();
    private final List<Long> made = new ArrayList<>();

    Arguments(Object... args) {
        kinds = new byte[args.length];
        words = new long[args.length];
        try {
            for (int i = 0; i < args.length; i++) set(i, args[i]);
        } catch (RuntimeException error) {
            close();
            throw error;
        }
    }

    private void set(int i, byte kind, long word) {
        kinds[i] = kind;
        words[i] = word;
    }

    private void own(int i, long value) {
        made.add(value);
        set(i, Native.VALUE, value);
    }

    private void set(int i, Object arg) {
        if (arg == null) set(i, Native.NONE, 0);
        else if (arg instanceof Boolean) set(i, Native.BOOL, (Boolean) arg ? 1 : 0);
        else if (arg instanceof Double || arg instanceof Float)
            set(i, Native.FLOAT, Double.doubleToRawLongBits(((Number) arg).doubleValue()));
        else if (arg instanceof Long || arg instanceof Integer || arg instanceof Short || arg instanceof Byte)
            set(i, Native.INT, ((Number) arg).longValue());
        else if (arg instanceof String) own(i, Native.string(Native.bytes((String) arg)));
        else if (arg instanceof Value) {
            Resource resource = ((Value) arg).resource;
            set(i, Native.VALUE, resource.open());
            held.add(resource);
        } else if (arg instanceof PackedFunction) own(i, Native.function((PackedFunction) arg));
        else if (arg instanceof long[]) own(i, Native.shape((long[]) arg));
        else if (arg instanceof List || arg instanceof Object[]) {
            Object[] items = arg instanceof List ? ((List<?>) arg).toArray() : (Object[]) arg;
            try (Arguments tuple = new Arguments(items)) {
                own(i, Native.tuple(tuple.kinds, tuple.words));
            }
        } else throw new IllegalArgumentException("a " + arg.getClass().getName() + " is no value of programs");
    }

    /** An owned value that equals the only one of these. */
    long owned() {
        return kinds[0] == Native.VALUE ? Native.copyValue(words[0]) : Native.scalar(kinds, words);
    }

    @Override
    public void close() {
        for (long value : made) Native.freeValue(value);
        for (Resource resource : held) resource.done();
        made.clear();
        held.clear();
    }
}
