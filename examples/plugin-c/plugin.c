/* A backend for ubique in C: one CPU device that computes a few ops in f32. All else ubique composes of these or runs itself.
 *
 *     cc -O2 -shared -fPIC -I ../../crates/ubique-plugin/include plugin.c -lm -o libplugin_c.so
 *     UBIQUE_PLUGIN_PATH=. ubique verify --device example_c
 *
 * Copy this file to begin a backend of your own. What yours needs: buffers, upload, download, the op `contiguous`, and as many
 * kernels as you like. */
#include "ubique_backend_v1.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ops ---------------------------------------------------------------------------------------------------------------- */

static float neg_f(float a) { return -a; }
static float abs_f(float a) { return fabsf(a); }
static float square_f(float a) { return a * a; }
static float add_f(float a, float b) { return a + b; }
static float sub_f(float a, float b) { return a - b; }
static float mul_f(float a, float b) { return a * b; }
static float div_f(float a, float b) { return a / b; }

enum kind { CONTIGUOUS, UNARY, BINARY, MATMUL };

/* An op that this backend has, by the name that ubique gives it. None of these has parameters; for one that has, read the JSON
 * in prepare_op and keep what it says in an ubique_op of its own. */
struct ubique_op {
    const char *name;
    enum kind kind;
    float (*unary)(float);
    float (*binary)(float, float);
};

static const struct ubique_op OPS[] = {
    {"contiguous", CONTIGUOUS, NULL, NULL}, {"matmul", MATMUL, NULL, NULL},
    {"neg", UNARY, neg_f, NULL},            {"abs", UNARY, abs_f, NULL},
    {"square", UNARY, square_f, NULL},      {"sqrt", UNARY, sqrtf, NULL},
    {"add", BINARY, NULL, add_f},           {"sub", BINARY, NULL, sub_f},
    {"mul", BINARY, NULL, mul_f},           {"div", BINARY, NULL, div_f},
};

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

struct ubique_device {
    atomic_ullong live_bytes, live_blocks, peak_bytes, allocations, limit;
};

/* Memory of ours, or of the host's that we may look at, which saves the copy. */
struct ubique_buffer {
    struct ubique_device *device;
    void *data;
    size_t bytes;
    ubique_memory foreign; /* release is NULL where the memory is ours */
};

static ubique_code fail(ubique_error *error, ubique_code code, const char *message) {
    snprintf(error->message, sizeof error->message, "%s", message);
    error->hint[0] = 0;
    return code;
}

static size_t size_of(ubique_dtype dtype) {
    static const size_t SIZES[UBIQUE_DTYPES] = {8, 4, 2, 2, 8, 4, 2, 1, 8, 4, 2, 1, 1, 1, 1};
    return SIZES[dtype];
}

/* The host has checked that this does not overflow. */
static size_t count_of(const ubique_spec *spec) {
    size_t count = 1;
    for (uint32_t axis = 0; axis < spec->rank; axis++) count *= spec->shape[axis];
    return count;
}

static ubique_buffer *new_buffer(ubique_device *device, size_t bytes) {
    unsigned long long limit = device->limit, live = atomic_fetch_add(&device->live_bytes, bytes) + bytes;
    ubique_buffer *buffer = (limit && live > limit) ? NULL : calloc(1, sizeof *buffer);
    void *data = buffer ? malloc(bytes ? bytes : 1) : NULL;
    if (!data) {
        atomic_fetch_sub(&device->live_bytes, bytes);
        free(buffer);
        return NULL;
    }
    atomic_fetch_add(&device->live_blocks, 1);
    atomic_fetch_add(&device->allocations, 1);
    unsigned long long peak = device->peak_bytes;
    while (live > peak && !atomic_compare_exchange_weak(&device->peak_bytes, &peak, live)) {}
    buffer->device = device;
    buffer->data = data;
    buffer->bytes = bytes;
    return buffer;
}

static void free_buffer(ubique_buffer *buffer) {
    if (buffer->foreign.release) {
        buffer->foreign.release(buffer->foreign.context);
    } else {
        atomic_fetch_sub(&buffer->device->live_bytes, buffer->bytes);
        atomic_fetch_sub(&buffer->device->live_blocks, 1);
        free(buffer->data);
    }
    free(buffer);
}

static ubique_code upload(ubique_device *device, const ubique_spec *spec, ubique_memory memory, ubique_buffer **result,
                          ubique_error *error) {
    (void)spec;
    ubique_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        memory.release(memory.context);
        return fail(error, UBIQUE_OUT_OF_MEMORY, "no memory for a buffer");
    }
    buffer->device = device;
    buffer->data = (void *)memory.data;
    buffer->bytes = memory.bytes;
    buffer->foreign = memory;
    *result = buffer;
    return UBIQUE_OK;
}

static const void *host_pointer(ubique_device *device, ubique_buffer *buffer) {
    (void)device;
    return buffer->data;
}

/* Where the element of a row-major number lies in the operand's buffer. */
static size_t place(const ubique_view *view, size_t number) {
    if (view->contiguous) return view->offset + number;
    ptrdiff_t at = (ptrdiff_t)view->offset;
    for (uint32_t axis = view->spec.rank; axis-- > 0;) {
        at += (ptrdiff_t)(number % view->spec.shape[axis]) * view->strides[axis];
        number /= view->spec.shape[axis];
    }
    return (size_t)at;
}

static void copy(const ubique_view *view, char *target) {
    size_t size = size_of(view->spec.dtype), count = count_of(&view->spec);
    const char *source = view->buffer->data;
    if (view->contiguous) {
        memcpy(target, source + view->offset * size, count * size);
        return;
    }
    for (size_t i = 0; i < count; i++) memcpy(target + i * size, source + place(view, i) * size, size);
}

static ubique_code download(ubique_device *device, const ubique_view *view, void *target, size_t bytes, ubique_error *error) {
    (void)device, (void)bytes, (void)error;
    copy(view, target);
    return UBIQUE_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------ */

/* An operand's element for an element of the result, with which it broadcasts: axes of extent 1, or none, stay at 0. */
static float element(const ubique_view *view, const ubique_spec *result, size_t number) {
    ptrdiff_t at = (ptrdiff_t)view->offset;
    uint32_t missing = result->rank - view->spec.rank;
    for (uint32_t axis = result->rank; axis-- > 0; number /= result->shape[axis]) {
        if (axis < missing || view->spec.shape[axis - missing] == 1) continue;
        at += (ptrdiff_t)(number % result->shape[axis]) * view->strides[axis - missing];
    }
    return ((const float *)view->buffer->data)[at];
}

static void matmul(const ubique_view *a, const ubique_view *b, float *c) {
    size_t rows = a->spec.shape[0], inner = a->spec.shape[1], columns = b->spec.shape[1];
    const float *left = (const float *)a->buffer->data + a->offset, *right = (const float *)b->buffer->data + b->offset;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = 0;
            for (size_t k = 0; k < inner; k++)
                sum += (double)left[(ptrdiff_t)i * a->strides[0] + (ptrdiff_t)k * a->strides[1]] *
                       right[(ptrdiff_t)k * b->strides[0] + (ptrdiff_t)j * b->strides[1]];
            c[i * columns + j] = (float)sum;
        }
}

static ubique_code prepare_op(ubique_device *device, const char *name, const char *json, ubique_op **op, ubique_error *error) {
    (void)device, (void)json;
    for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
        if (!strcmp(OPS[i].name, name)) {
            *op = (ubique_op *)&OPS[i];
            return UBIQUE_OK;
        }
    return fail(error, UBIQUE_UNSUPPORTED, "this backend has no such op");
}

static void free_op(ubique_op *op) { (void)op; /* all of them are constants */ }

static uint32_t supports(ubique_device *device, const ubique_op *op, const ubique_spec *inputs, size_t count) {
    (void)device;
    if (op->kind == CONTIGUOUS) return 1;
    /* `add` is the name of the sum with a scalar too, which is in the JSON. */
    if (count != (op->kind == UNARY ? 1 : 2)) return 0;
    for (size_t i = 0; i < count; i++)
        if (inputs[i].dtype != UBIQUE_F32) return 0;
    return op->kind != MATMUL || (inputs[0].rank == 2 && inputs[1].rank == 2);
}

static ubique_code execute(ubique_device *device, const ubique_op *op, const ubique_view *inputs, size_t input_count,
                           const ubique_spec *outputs, ubique_buffer **buffers, size_t output_count, ubique_error *error) {
    (void)input_count, (void)output_count;
    const ubique_spec *spec = &outputs[0];
    size_t count = count_of(spec), bytes = count * size_of(spec->dtype);
    /* An operand that nobody else needs gives its memory, where that is ours: elementwise ops read each element once. */
    int reuse = op->kind == UNARY && inputs[0].owned && inputs[0].contiguous && inputs[0].offset == 0 &&
                !inputs[0].buffer->foreign.release && inputs[0].buffer->bytes == bytes;
    ubique_buffer *result = reuse ? inputs[0].buffer : new_buffer(device, bytes);
    if (!result) {
        snprintf(error->message, sizeof error->message, "no memory for %zu bytes", bytes);
        return UBIQUE_OUT_OF_MEMORY;
    }
    float *out = result->data;
    switch (op->kind) {
    case CONTIGUOUS: copy(&inputs[0], result->data); break;
    case MATMUL: matmul(&inputs[0], &inputs[1], out); break;
    case UNARY:
        for (size_t i = 0; i < count; i++) out[i] = op->unary(((const float *)inputs[0].buffer->data)[place(&inputs[0], i)]);
        break;
    case BINARY:
        for (size_t i = 0; i < count; i++) out[i] = op->binary(element(&inputs[0], spec, i), element(&inputs[1], spec, i));
        break;
    }
    buffers[0] = result;
    return UBIQUE_OK;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------ */

static ubique_code probe(void *context, ubique_device_info *devices, size_t capacity, size_t *count, ubique_error *error) {
    (void)context, (void)error;
    *count = 1;
    if (capacity == 0) return UBIQUE_OK;
    ubique_device_info info = {.kind = UBIQUE_CPU, .default_float = UBIQUE_F32, .default_int = UBIQUE_I64, .priority = -100};
    snprintf(info.name, sizeof info.name, "example backend in C");
    snprintf(info.driver, sizeof info.driver, "plugin.c 1.0");
    memset(info.dtypes, UBIQUE_STORAGE, UBIQUE_DTYPES);
    info.dtypes[UBIQUE_F32] |= UBIQUE_ARITHMETIC;
    devices[0] = info;
    return UBIQUE_OK;
}

static ubique_code open_device(void *context, size_t index, const ubique_open_options *options, ubique_device **device,
                               ubique_error *error) {
    (void)context;
    if (index > 0) return fail(error, UBIQUE_DEVICE, "example_c has one device, 0");
    if (options->threads > 1) return fail(error, UBIQUE_VALUE, "example_c computes on one thread");
    *device = calloc(1, sizeof **device);
    if (!*device) return fail(error, UBIQUE_OUT_OF_MEMORY, "no memory for a device");
    (*device)->limit = options->memory_limit;
    return UBIQUE_OK;
}

static void close_device(ubique_device *device) { free(device); }

static void memory_usage(ubique_device *device, ubique_memory_usage *usage) {
    unsigned long long live = device->live_bytes;
    *usage = (ubique_memory_usage){.live_bytes = live, .requested_bytes = live, .live_blocks = device->live_blocks,
                                   .peak_bytes = device->peak_bytes, .allocations = device->allocations,
                                   .system_allocations = device->allocations, .limit = device->limit};
}

static uint64_t memory_cleanup(ubique_device *device) { (void)device; return 0; /* nothing is cached */ }
static void memory_limit(ubique_device *device, uint64_t bytes) { device->limit = bytes; }

const ubique_backend *ubique_backend_v1(void) {
    static const ubique_backend BACKEND = {
        .size = sizeof(ubique_backend), .version = UBIQUE_ABI_VERSION, .id = 200, .name = "example_c",
        .probe = probe, .open_device = open_device, .close_device = close_device,
        .prepare_op = prepare_op, .free_op = free_op, .supports = supports,
        .upload = upload, .download = download, .free_buffer = free_buffer, .host_pointer = host_pointer,
        .execute = execute,
        .memory_usage = memory_usage, .memory_cleanup = memory_cleanup, .memory_limit = memory_limit,
    };
    return &BACKEND;
}
