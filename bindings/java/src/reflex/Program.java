package reflex;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A loaded model, shared by any number of sessions on any threads. */
public final class Program extends Handle {
    /** An input or output of a function. */
    public static final class TensorInfo {
        private final String name;
        private final DType dtype;
        private final long[] shape;
        private final String[] symbols;

        private TensorInfo(Object[] row) {
            long[] numbers = (long[]) row[1];
            Object[] names = (Object[]) row[2];
            name = new String((byte[]) row[0], StandardCharsets.UTF_8);
            dtype = DType.of((int) numbers[0]);
            shape = Arrays.copyOfRange(numbers, 1, numbers.length);
            symbols = new String[names.length];
            for (int i = 0; i < names.length; i++)
                if (names[i] != null) symbols[i] = new String((byte[]) names[i], StandardCharsets.UTF_8);
        }

        public String name() {
            return name;
        }

        /** The element type; null if the program does not say. */
        public DType dtype() {
            return dtype;
        }

        /** Dimensions; -1 for one that each call chooses. */
        public long[] shape() {
            return shape.clone();
        }

        /** The names of dimensions that each call chooses, and null for others. */
        public String[] symbols() {
            return symbols.clone();
        }
    }

    Program(long program) {
        super("program", program, Native::freeProgram);
    }

    /** The names of the functions. */
    public List<String> functions() {
        return with(pointer -> {
            List<String> names = new ArrayList<>();
            for (int i = 0; ; i++) {
                long name = Native.functionName(pointer, i);
                if (name == 0) return names;
                names.add((String) Native.taken(name));
            }
        });
    }

    /** The inputs of a function, in the order of calls. */
    public List<TensorInfo> inputs(String function) {
        return infos(function, false);
    }

    /** The outputs of a function, those of tuples one after another. */
    public List<TensorInfo> outputs(String function) {
        return infos(function, true);
    }

    private List<TensorInfo> infos(String function, boolean outputs) {
        return with(pointer -> {
            List<TensorInfo> infos = new ArrayList<>();
            for (Object row : Native.signature(pointer, Native.name(function), outputs))
                infos.add(new TensorInfo((Object[]) row));
            return infos;
        });
    }

    /** Writes a compiled model as a library that {@link Engine#load(String)} and TVM open. */
    public void save(String path) {
        using(pointer -> Native.save(pointer, Native.name(path)));
    }

    /** Opens a session that interprets first, and compiles what is hot. */
    public Session session() {
        return session(Session.Mode.TIERED);
    }

    public Session session(Session.Mode mode) {
        return with(pointer -> new Session(Native.newSession(pointer, mode.ordinal())));
    }
}
