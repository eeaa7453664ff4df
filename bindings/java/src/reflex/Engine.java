package reflex;

/** Loads models. Any thread may use it at any time. */
public final class Engine extends Handle {
    /** Formats of models in memory. */
    public enum Format {
        ONNX, SCRIPT, LIBRARY, RELAY, RELAY_EXECUTABLE, NODES, TORCH
    }

    /** Options; what is not set has its default. */
    public static final class Builder {
        private int threads;
        private final String[] texts = new String[6];

        private Builder() {}

        /** Threads for parallel kernels, the caller's included. */
        public Builder threads(int threads) {
            if (threads < 0) throw new IllegalArgumentException("a negative number of threads");
            this.threads = threads;
            return this;
        }

        /** Where programs run, such as {@code cpu}. */
        public Builder device(String device) {
            texts[0] = device;
            return this;
        }

        /** Folder of compiled kernels. */
        public Builder kernelCache(String folder) {
            texts[1] = folder;
            return this;
        }

        /** Tier policy, such as {@code threshold=10}, or {@code off}. */
        public Builder tier(String policy) {
            texts[2] = policy;
            return this;
        }

        /** {@code f32}, {@code f32-fast} or {@code bf16}. */
        public Builder precision(String precision) {
            texts[3] = precision;
            return this;
        }

        /** {@code speed} or {@code size}. */
        public Builder optimizeFor(String goal) {
            texts[4] = goal;
            return this;
        }

        /** Symbolic dimensions of inputs that are constants, such as {@code batch=1,height=320}. */
        public Builder dims(String dims) {
            texts[5] = dims;
            return this;
        }

        public Engine build() {
            byte[][] names = new byte[texts.length][];
            for (int i = 0; i < names.length; i++) if (texts[i] != null) names[i] = Native.name(texts[i]);
            return new Engine(Native.newEngine(threads, names));
        }
    }

    private Engine(long engine) {
        super("engine", engine, Native::freeEngine);
    }

    /** An engine with the default options. */
    public Engine() {
        this(Native.newEngine(0, new byte[6][]));
    }

    public static Builder builder() {
        return new Builder();
    }

    /** The version of the library. */
    public static String version() {
        return new String(Native.version(), java.nio.charset.StandardCharsets.UTF_8);
    }

    /**
     * Loads a model: {@code .onnx} and {@code .py} are compiled, {@code .so} is opened, which runs machine
     * code of its author's choice.
     */
    public Program load(String path) {
        return with(pointer -> new Program(Native.load(pointer, Native.name(path))));
    }

    /** Loads a model from memory. */
    public Program load(Format format, byte[] model) {
        return with(pointer -> new Program(Native.loadBytes(pointer, format.ordinal(), model)));
    }
}
