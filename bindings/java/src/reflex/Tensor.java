package reflex;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Elements in row-major order, in memory of the library's or of a direct buffer. Programs read and write
 * them in place.
 */
public final class Tensor extends Value {
    /** The memory of a view, kept while this is. */
    private final ByteBuffer viewed;

    Tensor(long value) {
        this(value, null);
    }

    private Tensor(long value, ByteBuffer viewed) {
        super(value, "tensor");
        this.viewed = viewed;
    }

    /** A tensor of zeroes, to be filled through {@link #buffer}. */
    public static Tensor zeros(DType dtype, long... shape) {
        return new Tensor(Native.newTensor(dtype.raw, shape));
    }

    /** A view of a direct buffer from its position on, which is read and written in place. */
    public static Tensor view(ByteBuffer data, DType dtype, long... shape) {
        if (!data.isDirect()) throw new IllegalArgumentException("a view is of a direct buffer; of() copies arrays");
        ByteBuffer from = data.slice().order(ByteOrder.nativeOrder());
        long bytes = Math.multiplyExact(elements(shape), dtype.bytes());
        if (bytes > from.remaining())
            throw new IllegalArgumentException(from.remaining() + " bytes for a tensor of " + bytes);
        return new Tensor(Native.viewOf(from, dtype.raw, shape), from);
    }

    public static Tensor of(float[] data, long... shape) {
        Tensor made = filled(DType.FLOAT32, data.length, shape);
        made.using(pointer -> memory(pointer).asFloatBuffer().put(data));
        return made;
    }

    public static Tensor of(double[] data, long... shape) {
        Tensor made = filled(DType.FLOAT64, data.length, shape);
        made.using(pointer -> memory(pointer).asDoubleBuffer().put(data));
        return made;
    }

    public static Tensor of(int[] data, long... shape) {
        Tensor made = filled(DType.INT32, data.length, shape);
        made.using(pointer -> memory(pointer).asIntBuffer().put(data));
        return made;
    }

    public static Tensor of(long[] data, long... shape) {
        Tensor made = filled(DType.INT64, data.length, shape);
        made.using(pointer -> memory(pointer).asLongBuffer().put(data));
        return made;
    }

    public static Tensor of(short[] data, long... shape) {
        Tensor made = filled(DType.INT16, data.length, shape);
        made.using(pointer -> memory(pointer).asShortBuffer().put(data));
        return made;
    }

    /** Signed bytes; {@link #of(DType, byte[], long...)} has the bytes of any element type. */
    public static Tensor of(byte[] data, long... shape) {
        return of(DType.INT8, data, shape);
    }

    /** A tensor of any element type from its bytes in the machine's order. */
    public static Tensor of(DType dtype, byte[] data, long... shape) {
        if (data.length % dtype.bytes() != 0) throw new IllegalArgumentException("there is a part of an element");
        Tensor made = filled(dtype, data.length / dtype.bytes(), shape);
        made.using(pointer -> memory(pointer).put(data));
        return made;
    }

    private static long elements(long[] shape) {
        long count = 1;
        for (long dim : shape) {
            if (dim < 0) throw new IllegalArgumentException("a dimension is negative: " + Arrays.toString(shape));
            count = Math.multiplyExact(count, dim);
        }
        return count;
    }

    private static Tensor filled(DType dtype, long length, long[] shape) {
        if (elements(shape) != length)
            throw new IllegalArgumentException(length + " elements for a tensor of shape " + Arrays.toString(shape));
        return zeros(dtype, shape);
    }

    /** The memory of a value, valid as long as the value. */
    private static ByteBuffer memory(long value) {
        if (elements(Native.dims(value)) == 0) return ByteBuffer.allocateDirect(0);
        ByteBuffer memory = Native.buffer(value);
        if (memory == null) throw new UnsupportedOperationException("the tensor has strides, or is not on the CPU");
        return memory.order(ByteOrder.nativeOrder());
    }

    /** The element type; null for one that Java has no name for. */
    public DType dtype() {
        return with(pointer -> DType.of(Native.dtype(pointer)));
    }

    public long[] shape() {
        return with(Native::dims);
    }

    /**
     * The elements in place, in the machine's byte order. The memory stays valid as long as the buffer and
     * those made from it are in use, also when the tensor is closed.
     */
    public ByteBuffer buffer() {
        if (viewed != null) return with(pointer -> viewed.duplicate().order(ByteOrder.nativeOrder()));
        return with(pointer -> {
            ByteBuffer memory = memory(pointer);
            if (memory.capacity() > 0) {
                CLEANER.register(memory, new Resource("buffer", Native.copyValue(pointer), Native::freeValue));
            }
            return memory;
        });
    }

    private ByteBuffer readable(long pointer, DType dtype) {
        if (Native.dtype(pointer) != dtype.raw)
            throw new IllegalStateException("the tensor is of " + DType.of(Native.dtype(pointer)) + ", not of " + dtype);
        return viewed != null ? viewed.duplicate().order(ByteOrder.nativeOrder()) : memory(pointer);
    }

    private int length(long pointer) {
        return Math.toIntExact(elements(Native.dims(pointer)));
    }

    /** A copy of the elements. */
    public float[] toFloats() {
        return with(pointer -> {
            float[] copy = new float[length(pointer)];
            readable(pointer, DType.FLOAT32).asFloatBuffer().get(copy);
            return copy;
        });
    }

    /** A copy of the elements. */
    public double[] toDoubles() {
        return with(pointer -> {
            double[] copy = new double[length(pointer)];
            readable(pointer, DType.FLOAT64).asDoubleBuffer().get(copy);
            return copy;
        });
    }

    /** A copy of the elements. */
    public int[] toInts() {
        return with(pointer -> {
            int[] copy = new int[length(pointer)];
            readable(pointer, DType.INT32).asIntBuffer().get(copy);
            return copy;
        });
    }

    /** A copy of the elements. */
    public long[] toLongs() {
        return with(pointer -> {
            long[] copy = new long[length(pointer)];
            readable(pointer, DType.INT64).asLongBuffer().get(copy);
            return copy;
        });
    }
}
