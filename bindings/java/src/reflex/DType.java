package reflex;

/** Element types. */
public enum DType {
    INT8(0, 8), INT16(0, 16), INT32(0, 32), INT64(0, 64),
    UINT8(1, 8), UINT16(1, 16), UINT32(1, 32), UINT64(1, 64),
    FLOAT16(2, 16), FLOAT32(2, 32), FLOAT64(2, 64), BFLOAT16(4, 16), BOOL(6, 8);

    /** Code and bits as DLPack has them. */
    final int raw;

    DType(int code, int bits) {
        raw = code << 8 | bits;
    }

    /** Bytes of an element. */
    public int bytes() {
        return (raw & 0xff) / 8;
    }

    static DType of(int raw) {
        for (DType type : values()) if (type.raw == raw) return type;
        return null;
    }
}
