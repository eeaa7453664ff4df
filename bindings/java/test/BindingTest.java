import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import reflex.DType;
import reflex.Engine;
import reflex.Function;
import reflex.PackedFunction;
import reflex.Program;
import reflex.ReflexException;
import reflex.Session;
import reflex.Tensor;
import reflex.Value;

/** Tests of the package for Java; `./x bindings java` runs them. The argument is the folder of models. */
public final class BindingTest {
    private static Path models;

    interface Body {
        void run() throws Exception;
    }

    private static void equal(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) throw new AssertionError(got + " instead of " + want);
    }

    private static void fails(Class<? extends Exception> type, String text, Body body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            if (type.isInstance(error) && error.getMessage().contains(text)) return;
            throw error;
        }
        throw new AssertionError("no error with " + text);
    }

    private static void fails(String kind, ReflexException.Status status, String text, Body body) throws Exception {
        fails(ReflexException.class, text, () -> {
            try {
                body.run();
            } catch (ReflexException error) {
                equal(error.kind() + " " + error.status(), kind + " " + status);
                throw error;
            }
        });
    }

    /** Answers by the kind of its argument. */
    private static Object back(Object... args) throws Exception {
        Object x = args[0];
        if (x == null) throw new ReflexException("ValueError", "nothing is given");
        if (x instanceof Boolean) return !(Boolean) x;
        if (x instanceof Long) return (Long) x + 1;
        if (x instanceof Double) return (Double) x / 2;
        if (x instanceof String) return "hello " + x;
        if (x instanceof long[]) return new long[] {7, ((long[]) x)[0]};
        if (x instanceof List) return Arrays.asList(((List<?>) x).get(((List<?>) x).size() - 1), ((List<?>) x).get(0));
        if (x instanceof Function) {
            try (Function function = (Function) x) {
                return function.call(20);
            }
        }
        try (Tensor tensor = (Tensor) x) {
            float[] data = tensor.toFloats();
            for (int i = 0; i < data.length; i++) data[i] *= 2;
            return Tensor.of(data, tensor.shape());
        }
    }

    private static Program open(String model) {
        try (Engine engine = Engine.builder().threads(1).build()) {
            return engine.load(models.resolve(model).toString());
        }
    }

    private static float[] floats(Object tensor) {
        try (Tensor taken = (Tensor) tensor) {
            return taken.toFloats();
        }
    }

    static void modelsFromFilesAndMemory() throws Exception {
        Path path = models.resolve("linear.onnx"), saved = Files.createTempFile("linear", ".so");
        List<Program> programs = new ArrayList<>();
        try (Engine engine = Engine.builder().threads(2).tier("threshold=10").build()) {
            programs.add(engine.load(path.toString()));
            programs.get(0).save(saved.toString());
            programs.add(engine.load(saved.toString()));
            programs.add(engine.load(Engine.Format.ONNX, Files.readAllBytes(path)));
        }
        for (Program program : programs) {
            Program.TensorInfo x = program.inputs("main").get(0);
            equal(x.name(), "x");
            equal(x.dtype(), DType.FLOAT32);
            equal(x.shape(), new long[] {-1, 3});
            equal(x.symbols(), new String[] {"n", null});
            equal(program.outputs("main").size(), 1);
            equal(program.functions(), List.of("main"));
            for (Session.Mode mode : Session.Mode.values()) {
                try (Session session = program.session(mode);
                        Tensor given = Tensor.of(new float[] {3, 2, 0, 0, 1, 2}, 2, 3)) {
                    equal(floats(session.call("main", given)), new float[] {7.5f, 0, 0, 6.5f});
                    if (session.warmUp("main", given) == 0) throw new AssertionError("no call");
                }
            }
            program.close();
            fails(IllegalStateException.class, "the program is closed", program::session);
        }
        Files.delete(saved);
    }

    static void valuesOfEveryKindGoBothWays() throws Exception {
        try (Program program = open("values.py"); Session session = program.session()) {
            PackedFunction twice = args -> (Long) args[0] * 2;
            Object[][] rows = {
                {true, false}, {41, 42L}, {(byte) -2, -1L}, {0.5, 0.25}, {-3f, -1.5}, {"w\u00f6rld\0!", "hello w\u00f6rld\0!"},
                {Arrays.asList("a", null, 2), Arrays.asList(2L, "a")}, {new Object[] {1, 2}, Arrays.asList(2L, 1L)},
                {new long[] {2, 3}, new long[] {7, 2}}, {twice, 40L},
            };
            for (Object[] row : rows) equal(session.call("back", row[0]), row[1]);
            equal(Function.lookup("ffi.Map").call("key", 1).getClass(), Value.class);
            Tensor x = Tensor.zeros(DType.FLOAT32, 2, 2);
            x.buffer().asFloatBuffer().put(new float[] {1, 2, 3, 4});
            equal(floats(session.call("back", x)), new float[] {2, 4, 6, 8});
            equal(session.call("shape", x), new long[] {2, 2});
            List<?> pair = (List<?>) session.call("pair", Tensor.of(new float[] {1, 2, 3}, 3));
            equal(floats(pair.get(0)), new float[] {2, 3, 4});
            equal(floats(pair.get(1)), new float[] {1, 4, 9});
            Tensor counted = (Tensor) session.call("count", Tensor.of(new long[] {Long.MAX_VALUE - 1, -5}, 2));
            equal(counted.toLongs(), new long[] {Long.MAX_VALUE, -4});
            equal(Tensor.of(new float[0], 0, 3).toFloats().length, 0);
        }
    }

    static void buffersAreReadInPlaceAndOutliveTensors() throws Exception {
        try (Program program = open("values.py"); Session session = program.session()) {
            ByteBuffer direct = ByteBuffer.allocateDirect(4 + 3 * 4).order(ByteOrder.nativeOrder());
            direct.position(4);
            Tensor view = Tensor.view(direct, DType.FLOAT32, 3);
            direct.asFloatBuffer().put(new float[] {1, 2, 3});
            FloatBuffer squares;
            try (Tensor second = (Tensor) ((List<?>) session.call("pair", view)).get(1)) {
                squares = second.buffer().asFloatBuffer();
            }
            direct.asFloatBuffer().put(new float[] {4, 5, 6});
            equal(floats(((List<?>) session.call("pair", view)).get(1)), new float[] {16, 25, 36});
            for (int i = 0; i < 3; i++) System.gc();
            equal(new float[] {squares.get(0), squares.get(1), squares.get(2)}, new float[] {1, 4, 9});
            fails(IllegalArgumentException.class, "12 bytes for a tensor of 16", () -> Tensor.view(direct, DType.FLOAT32, 4));
            fails(IllegalArgumentException.class, "direct buffer", () -> Tensor.view(ByteBuffer.allocate(4), DType.INT8, 4));
        }
    }

    static void errorsSayWhatAndWhere() throws Exception {
        try (Program program = open("values.py"); Session session = program.session()) {
            fails("ValueError", ReflexException.Status.RUN, "nothing is given", () -> session.call("back", (Object) null));
            PackedFunction wrong = args -> {
                throw new IllegalStateException("so what");
            };
            fails("IllegalStateException", ReflexException.Status.RUN, "so what", () -> session.call("back", wrong));
            fails("AttributeError", ReflexException.Status.RUN, "nothing", () -> session.call("nothing"));
            fails("InternalError", ReflexException.Status.RUN, "expects 1 argument", () -> session.call("pair"));
            fails("OSError", ReflexException.Status.IO, "no/such.onnx", () -> new Engine().load("no/such.onnx"));
            fails("ValueError", ReflexException.Status.INPUT, "no.such", () -> Function.lookup("no.such.function"));
            fails(IllegalArgumentException.class, "no value of programs", () -> session.call("back", new Object()));
            fails(IllegalArgumentException.class, "NUL", () -> session.call("ba\0ck"));
            Tensor x = Tensor.of(new float[] {1}, 1);
            fails(IllegalStateException.class, "of FLOAT32, not of FLOAT64", x::toDoubles);
            x.close();
            x.close();
            fails(IllegalStateException.class, "the tensor is closed", () -> session.call("back", x));
            session.setFuel(0);
            fails("reflex.FuelExhausted", ReflexException.Status.FUEL, "", () -> session.call("back", 1));
            session.setFuel(-1);
            session.setTimeout(Duration.ZERO);
            fails(ReflexException.class, "", () -> session.call("back", 1));
            session.setTimeout(null);
            try (Session.Canceller canceller = session.canceller()) {
                canceller.cancel();
                fails(ReflexException.class, "", () -> session.call("back", 1));
                canceller.reset();
            }
            equal(session.call("back", 1), 2L);
        }
    }

    static void whatIsClosedDuringACallIsFreedAfterIt() throws Exception {
        try (Program program = open("values.py")) {
            Session session = program.session();
            PackedFunction closing = args -> {
                session.close();
                return "closed";
            };
            equal(session.call("back", closing), "closed");
            fails(IllegalStateException.class, "the session is closed", () -> session.call("back", 1));
        }
    }

    static void threadsShareAProgram() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        try (Program program = open("linear.onnx")) {
            List<Future<?>> workers = new ArrayList<>();
            for (int worker = 0; worker < 8; worker++) {
                int id = worker;
                workers.add(pool.submit(() -> {
                    try (Session session = program.session()) {
                        for (int i = 0; i < 200; i++) {
                            try (Tensor x = Tensor.of(new float[] {id, i, 0}, 1, 3)) {
                                equal(floats(session.call("main", x))[0], id + 2 * i + 0.5f);
                            }
                        }
                    }
                }));
            }
            for (Future<?> worker : workers) worker.get();
        } finally {
            pool.shutdown();
        }
    }

    private static long resident() throws Exception {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    static void memoryStaysFlat() throws Exception {
        try (Program program = open("values.py"); Session session = program.session()) {
            float[] elements = new float[16 << 10];
            PackedFunction same = args -> args[0];
            Body round = () -> {
                try (Tensor x = Tensor.of(elements, elements.length)) {
                    ((Tensor) session.call("back", x)).close();
                    for (Object part : (List<?>) session.call("pair", x)) ((Tensor) part).close();
                    session.call("back", "text");
                    fails(ReflexException.class, "nothing", () -> session.call("back", (Object) null));
                    session.call("back", same);
                }
            };
            for (int i = 0; i < 3000; i++) round.run();
            System.gc();
            long before = resident();
            for (int i = 0; i < 10000; i++) round.run();
            System.gc();
            long grown = resident() - before;
            System.out.println(grown + " bytes more after 10,000 rounds");
            // A tensor that leaks in each round would take 640 MiB.
            if (grown > 32 << 20) throw new AssertionError("memory grows by " + grown);
        }
    }

    public static void main(String[] args) throws Exception {
        models = Path.of(args[0]);
        Function.register("bindings.back", BindingTest::back);
        Body[] tests = {
            BindingTest::modelsFromFilesAndMemory, BindingTest::valuesOfEveryKindGoBothWays,
            BindingTest::buffersAreReadInPlaceAndOutliveTensors, BindingTest::errorsSayWhatAndWhere,
            BindingTest::whatIsClosedDuringACallIsFreedAfterIt, BindingTest::threadsShareAProgram,
            BindingTest::memoryStaysFlat,
        };
        for (Body test : tests) test.run();
        System.out.println(tests.length + " passed, 0 failed");
    }
}
