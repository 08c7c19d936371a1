/* Laplace noise confined to discs, by the algorithm of nearveil.mechanisms.keyed_discs: what a small C loop does.
 *
 * A try of a row takes one block of its keystream, two words. Flat noise: a point of the square's lattice from the first
 * word, and the decision from the second, by the squeeze 1 - z <= exp(-z). Narrow noise: a coordinate from each
 * word. What misses the disc is tried again.
 *
 * try_rows reads words that somebody else has made. sample_rows makes them itself, where the processor has AES. */
#include <math.h>
#include <stdint.h>
#if defined(__AES__) && defined(__x86_64__)
#include <immintrin.h>
#define HAS_AES 1
#else
#define HAS_AES 0
#endif

#define UNIT 0x1p-53
#define FINE_UNIT 0x1p-63
#define LATTICE 0x1p-31
#define HALF 2147483647.5

typedef struct {
    const double *x;
    const int64_t *disc;
    const double *centres, *radii, *scales;
    double *out;
    int64_t always_uniform;
} work_t;

static double nearest_l1(double a1, double a2) {
    double diagonal = sqrt(0.5);
    if (a1 * a1 + a2 * a2 <= 1.0) return 0.0;
    if (a1 >= diagonal && a2 >= diagonal) return a1 + a2 - 2.0 * diagonal;
    return a1 < diagonal ? a2 - sqrt(1.0 - a1 * a1) : a1 - sqrt(1.0 - a2 * a2);
}

/* Laplace noise of scale 1: the sign from the last bit, the size from the others. */
static inline double laplace(uint64_t word) {
    double size = -log(((double)(word >> 1) + 0.5) * FINE_UNIT);
    return word & 1 ? size : -size;
}

static inline int try_row(const work_t *work, int64_t i, uint64_t first, uint64_t second) {
    int64_t j = work->disc[i];
    double radius = work->radii[j], c1 = work->centres[2 * j], c2 = work->centres[2 * j + 1];
    double x1 = (work->x[2 * i] - c1) / radius, x2 = (work->x[2 * i + 1] - c2) / radius;
    double scale = work->scales[j] / radius, t1, t2;
    if (scale >= 1.0 || work->always_uniform) {
        t1 = ((double)(first >> 32) - HALF) * LATTICE;
        t2 = ((double)(first & 0xFFFFFFFFu) - HALF) * LATTICE;
        if (t1 * t1 + t2 * t2 > 1.0) return 0;
        double below = (fabs(t1 - x1) + fabs(t2 - x2) - nearest_l1(fabs(x1), fabs(x2))) / scale;
        double u = (double)(second >> 11) * UNIT;
        if (u >= 1.0 - below && u >= exp(-below)) return 0;
    } else {
        t1 = x1 + scale * laplace(first);
        t2 = x2 + scale * laplace(second);
        if (t1 * t1 + t2 * t2 > 1.0) return 0;
    }
    work->out[2 * i] = c1 + radius * t1;
    work->out[2 * i + 1] = c2 + radius * t2;
    return 1;
}

/* Try once for each of these rows, or for the first count if there are none named; return how many are left. */
int64_t try_rows(const work_t *work, const uint64_t *words, const int64_t *rows, int64_t count, int64_t *left) {
    int64_t kept = 0;
    for (int64_t place = 0; place < count; place++) {
        int64_t i = rows ? rows[place] : place;
        if (!try_row(work, i, words[2 * place], words[2 * place + 1])) left[kept++] = i;
    }
    return kept;
}

int has_aes(void) { return HAS_AES; }

#if HAS_AES
#define AT_ONCE 8

static __m128i next_key(__m128i key, __m128i assist) {
    assist = _mm_shuffle_epi32(assist, 0xFF);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, assist);
}

#define EXPAND(k, n, round) k[n] = next_key(k[n - 1], _mm_aeskeygenassist_si128(k[n - 1], round))

static void expand_key(const uint8_t *key, __m128i *k) {
    k[0] = _mm_loadu_si128((const __m128i *)key);
    EXPAND(k, 1, 0x01); EXPAND(k, 2, 0x02); EXPAND(k, 3, 0x04); EXPAND(k, 4, 0x08); EXPAND(k, 5, 0x10);
    EXPAND(k, 6, 0x20); EXPAND(k, 7, 0x40); EXPAND(k, 8, 0x80); EXPAND(k, 9, 0x1B); EXPAND(k, 10, 0x36);
}

static inline __m128i counter(uint64_t number, uint64_t row) {
    return _mm_set_epi64x((int64_t)__builtin_bswap64(row), (int64_t)__builtin_bswap64(number));
}

static inline void encrypt(const __m128i *k, __m128i *block, int count) {
    for (int b = 0; b < count; b++) block[b] = _mm_xor_si128(block[b], k[0]);
    for (int round = 1; round < 10; round++)
        for (int b = 0; b < count; b++) block[b] = _mm_aesenc_si128(block[b], k[round]);
    for (int b = 0; b < count; b++) block[b] = _mm_aesenclast_si128(block[b], k[10]);
}

static inline int try_block(const work_t *work, int64_t i, __m128i block) {
    return try_row(work, i, (uint64_t)_mm_cvtsi128_si64(block), (uint64_t)_mm_extract_epi64(block, 1));
}

/* Draw for every row, with the same words that a keystream of numbered rows gives. */
void sample_rows(const work_t *work, const uint8_t *key, int64_t first_row, int64_t count) {
    __m128i k[11], block[AT_ONCE];
    expand_key(key, k);
    for (int64_t start = 0; start < count; start += AT_ONCE) {
        int some = count - start < AT_ONCE ? (int)(count - start) : AT_ONCE;
        for (int b = 0; b < AT_ONCE; b++) block[b] = counter(0, (uint64_t)(first_row + start + b));
        encrypt(k, block, AT_ONCE);
        for (int b = 0; b < some; b++) {
            int done = try_block(work, start + b, block[b]);
            for (uint64_t number = 1; !done; number++) {
                __m128i again = counter(number, (uint64_t)(first_row + start + b));
                encrypt(k, &again, 1);
                done = try_block(work, start + b, again);
            }
        }
    }
}
#else
void sample_rows(const work_t *work, const uint8_t *key, int64_t first_row, int64_t count) {
    (void)work; (void)key; (void)first_row; (void)count;
}
#endif
