/* The contract between ubique and a backend that it loads at run time, version 1.
 *
 * A backend is a shared library that exports one function, ubique_backend_v1. It gives a table of functions, which stays valid
 * for ever: libraries are not unloaded. No call crosses the boundary with anything but the plain types below, so the backend
 * can be written in any language and built by any compiler.
 *
 * What every function keeps to:
 * - It may be called from any thread, and from several at once.
 * - It returns UBIQUE_OK, or another code after writing a sentence for people into *error. It never throws or unwinds.
 * - What the caller passes by pointer is the caller's, and valid until the function returns.
 * - Handles (device, op, buffer) are the backend's own. The host gives each back exactly once, to close_device, free_op or
 *   free_buffer, and never uses it afterwards.
 *
 * Tables and structs begin with their size, so that later versions can grow at the end. A backend fills in sizeof as it knows
 * it; fields beyond a smaller size count as zero. */
#ifndef UBIQUE_BACKEND_V1_H
#define UBIQUE_BACKEND_V1_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UBIQUE_ABI_VERSION 1u

/* What kind of thing went wrong. */
typedef int32_t ubique_code;
enum {
    UBIQUE_OK = 0,
    UBIQUE_SHAPE = 1,
    UBIQUE_DTYPE = 2,
    UBIQUE_DEVICE = 3,
    UBIQUE_INDEX = 4,
    UBIQUE_VALUE = 5,
    UBIQUE_UNSUPPORTED = 6, /* from prepare_op: not an op of this backend, which is no fault */
    UBIQUE_OUT_OF_MEMORY = 7, /* the host makes room and tries once more */
    UBIQUE_UNAVAILABLE = 8,
    UBIQUE_FAILED = 9, /* the backend or its library failed while working */
    UBIQUE_IO = 11,
    UBIQUE_FORMAT = 12
};

/* Memory for a message: NUL-terminated UTF-8. `hint` says what to install or set, where that is known. */
typedef struct {
    char message[768];
    char hint[256];
} ubique_error;

/* Element types. A bool is a byte, 0 or 1. The last two are for storage only. */
typedef uint32_t ubique_dtype;
enum {
    UBIQUE_F64 = 0, UBIQUE_F32 = 1, UBIQUE_F16 = 2, UBIQUE_BF16 = 3,
    UBIQUE_I64 = 4, UBIQUE_I32 = 5, UBIQUE_I16 = 6, UBIQUE_I8 = 7,
    UBIQUE_U64 = 8, UBIQUE_U32 = 9, UBIQUE_U16 = 10, UBIQUE_U8 = 11,
    UBIQUE_BOOL = 12, UBIQUE_F8E4M3 = 13, UBIQUE_F8E5M2 = 14, UBIQUE_DTYPES = 15
};

/* How a device can use a dtype: a sum of these. */
enum { UBIQUE_STORAGE = 1, UBIQUE_ARITHMETIC = 2, UBIQUE_ACCELERATED = 4 };

/* What class of hardware a device is; `auto` prefers the later ones, and never takes a virtual one. */
enum { UBIQUE_VIRTUAL = 0, UBIQUE_CPU = 1, UBIQUE_INTEGRATED_GPU = 2, UBIQUE_DISCRETE_GPU = 3 };

/* What a device is. */
typedef struct {
    char name[128];   /* the hardware's own name */
    char driver[128]; /* the driver or library with its version */
    uint32_t kind;
    uint32_t device_class; /* the backend's own number for this class of device, below 256 */
    uint64_t memory;       /* bytes; 0 where unknown */
    uint8_t dtypes[16];    /* how each dtype can be used, by its number */
    ubique_dtype default_float;
    ubique_dtype default_int;
    int32_t priority; /* among devices of the same kind `auto` prefers the highest */
    uint32_t unavailable; /* not 0: the device is known but cannot be opened, as `why` says */
    ubique_error why;
} ubique_device_info;

/* Wishes about how to open a device; 0 where there is none. What cannot be granted is an error. */
typedef struct {
    size_t size;
    uint64_t threads;
    uint64_t memory_limit; /* bytes */
} ubique_open_options;

typedef struct ubique_device ubique_device;
typedef struct ubique_op ubique_op;
typedef struct ubique_buffer ubique_buffer;

/* Shape and dtype: extents in elements, outermost first. `rank` 0 is a scalar. */
typedef struct {
    ubique_dtype dtype;
    uint32_t rank;
    const size_t *shape;
} ubique_spec;

/* An operand: elements of a buffer. Element (i, j, …) lies at offset + i·strides[0] + j·strides[1] + …, counted in elements.
 * Strides may be 0 (broadcast) or negative (flipped). */
typedef struct {
    ubique_spec spec;
    const ptrdiff_t *strides;
    size_t offset;
    ubique_buffer *buffer;
    uint32_t contiguous; /* not 0: row-major without gaps, from `offset` on */
    uint32_t owned;      /* not 0: nobody else needs it; its memory may be overwritten and its handle given as an output */
} ubique_view;

/* Host memory that changes hands: whoever has it calls `release(context)` once, from any thread, when it is done. */
typedef struct {
    const void *data; /* aligned to 8 bytes, or to the dtype where that needs less */
    size_t bytes;
    uint32_t writable; /* not 0: nobody else can see it */
    void *context;
    void (*release)(void *context);
} ubique_memory;

/* How much memory a device holds. */
typedef struct {
    uint64_t live_bytes, requested_bytes, live_blocks, cached_bytes, peak_bytes, allocations, system_allocations;
    uint64_t limit; /* 0 for none */
} ubique_memory_usage;

typedef struct {
    size_t size;      /* sizeof(ubique_backend) */
    uint32_t version; /* UBIQUE_ABI_VERSION */
    uint32_t id;      /* a number of this backend's own, 128 to 255: part of its devices' numbers */
    const char *name; /* what users write: lower-case ASCII letters, digits and _ */
    void *context;    /* given to `probe` and `open_device` */

    /* Which devices there are: writes at most `capacity` entries, and how many there are to *count. Quick; where there are
     * none, an error says why and what to do. */
    ubique_code (*probe)(void *context, ubique_device_info *devices, size_t capacity, size_t *count, ubique_error *error);
    /* Opens the device of a number. */
    ubique_code (*open_device)(void *context, size_t index, const ubique_open_options *options, ubique_device **device,
                               ubique_error *error);
    void (*close_device)(ubique_device *device);

    /* Reads an op, once, before it is used. `name` says which; `json` is the whole op with its parameters. Forms of an op may
     * share a name: `add` takes two tensors, or one and a scalar in the JSON. UBIQUE_UNSUPPORTED where the backend has no kernel
     * for it. An op outlives no device. */
    ubique_code (*prepare_op)(ubique_device *device, const char *name, const char *json, ubique_op **op, ubique_error *error);
    void (*free_op)(ubique_op *op);
    /* Whether the op runs on such operands: 1 or 0. Where not, the host composes it of others, or runs it itself. The answer
     * is the same every time, so the host keeps it. */
    uint32_t (*supports)(ubique_device *device, const ubique_op *op, const ubique_spec *inputs, size_t count);

    /* Host data to the device, row-major. The memory is the backend's from here on, in case of an error too: it copies and
     * releases it, or keeps it as the buffer. */
    ubique_code (*upload)(ubique_device *device, const ubique_spec *spec, ubique_memory memory, ubique_buffer **buffer,
                          ubique_error *error);
    /* A view's elements to the host, row-major; waits until they are there. */
    ubique_code (*download)(ubique_device *device, const ubique_view *view, void *target, size_t bytes, ubique_error *error);
    void (*free_buffer)(ubique_buffer *buffer);
    /* Where the host can read a buffer as long as it exists, after waiting for what still writes it; NULL where it cannot.
     * Optional. */
    const void *(*host_pointer)(ubique_device *device, ubique_buffer *buffer);
    /* The error that spoilt a buffer, where work that was queued has failed. Optional. */
    ubique_code (*check_buffer)(ubique_device *device, ubique_buffer *buffer, ubique_error *error);

    /* Runs an op that `supports` accepted on operands that fit. Outputs are row-major, with the shapes and dtypes given. An
     * owned operand's handle may be given as an output of the same size. May return before the work is done. */
    ubique_code (*execute)(ubique_device *device, const ubique_op *op, const ubique_view *inputs, size_t input_count,
                           const ubique_spec *outputs, ubique_buffer **buffers, size_t output_count, ubique_error *error);
    /* Starts what is queued; waits for it. Optional. */
    ubique_code (*flush)(ubique_device *device, ubique_error *error);
    ubique_code (*sync)(ubique_device *device, ubique_error *error);

    /* Memory: figures, giving back what is cached (returns bytes), a limit (0 lifts it). All three or none. */
    void (*memory_usage)(ubique_device *device, ubique_memory_usage *usage);
    uint64_t (*memory_cleanup)(ubique_device *device);
    void (*memory_limit)(ubique_device *device, uint64_t bytes);
} ubique_backend;

/* The one exported function. */
#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
const ubique_backend *ubique_backend_v1(void);

#ifdef __cplusplus
}
#endif
#endif
