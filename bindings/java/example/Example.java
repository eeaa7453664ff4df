import java.util.Arrays;
import reflex.Engine;
import reflex.Function;
import reflex.Program;
import reflex.Session;
import reflex.Tensor;

/** Calls a model: the example of README.md. */
public final class Example {
    public static void main(String[] args) {
        try (Engine engine = Engine.builder().threads(2).build();
                Program program = engine.load(args[0]);
                Session session = program.session();
                Tensor x = Tensor.of(new float[] {3, 2, 0, 0, 1, 2}, 2, 3);
                Tensor y = (Tensor) session.call("main", x)) {
            System.out.println(Arrays.toString(y.shape()) + " " + Arrays.toString(y.toFloats()));
        }

        // Programs call it by this name.
        Function.register("example.shout", given -> given[0].toString().toUpperCase() + "!");
        System.out.println(Function.lookup("example.shout").call("done"));
    }
}
