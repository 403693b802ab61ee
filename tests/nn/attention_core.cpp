// The tiled attention, against the plain one that makes the whole matrix of weights: lengths within a tile, at its edge
// and beyond it, causal and not, with padding that hides whole tiles and whole rows, and with dropout of the weights.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <normplace/detail/attention_core.hpp>

using namespace normplace;
using detail::AttentionShape;

namespace {

/// Values that float has too.
std::vector<double> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<double> values(count);
    for (double& v : values) v = static_cast<double>(normal(engine));
    return values;
}

/// What dropout multiplies the weight of query i and key j by, from the definition: MurmurHash3's finaliser twice, with
/// half of the query's seed each time.
double dropout_factor(const detail::DropoutMask& mask, std::size_t row, std::size_t i, std::size_t j) {
    const auto scramble = [](std::uint32_t h) {
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        return h ^ h >> 16;
    };
    const std::uint64_t seed = detail::seed_at(detail::seed_at(mask.seed, row), i);
    std::uint32_t h = scramble(static_cast<std::uint32_t>(j) ^ static_cast<std::uint32_t>(seed));
    h = scramble(h ^ static_cast<std::uint32_t>(seed >> 32));
    return h < mask.threshold ? 0.0 : mask.scale;
}

/// A rate of 0.3, nearly.
constexpr detail::DropoutMask thirty_percent{12345, 0x4ccccccdu, 1.0 / (1.0 - 0x4ccccccdp-32)};

struct Attended {
    std::vector<double> y, dq, dk, dv;
};

struct Problem {
    AttentionShape shape;
    std::vector<double> q, k, v, dy, padding;
    detail::DropoutMask dropout;

    Problem(const AttentionShape& s, bool padded, const detail::DropoutMask& d = {}) : shape(s), dropout(d) {
        const std::size_t tokens = s.batch * s.stride();
        q = random_values(tokens * s.queries, 1);
        k = random_values(tokens * s.keys, 2);
        v = random_values(tokens * s.keys, 3);
        dy = random_values(tokens * s.queries, 4);
        if (!padded) return;
        // The second half of the first sequence's keys, and all keys of the last.
        padding.assign(s.batch * s.keys, 0.0);
        for (std::size_t j = s.keys / 2; j < s.keys; ++j) padding[j] = -INFINITY;
        for (std::size_t j = 0; j < s.keys; ++j) padding[(s.batch - 1) * s.keys + j] = -INFINITY;
    }

    template <class T>
    Attended tiled() const {
        const auto converted = [](const std::vector<double>& x) { return std::vector<T>(x.begin(), x.end()); };
        const auto back = [](const std::vector<T>& x) { return std::vector<double>(x.begin(), x.end()); };
        std::vector<T> y(q.size(), static_cast<T>(NAN)), log_total(shape.rows() * shape.queries);
        std::vector<T> dq = converted(q), dk = converted(k), dv = converted(v);  // in place
        const std::vector<T> dout = converted(dy), hidden = converted(padding);
        const T* mask = hidden.empty() ? nullptr : hidden.data();
        detail::attention_forward(shape, dq.data(), dk.data(), dv.data(), mask, y.data(), log_total.data(), dropout);
        detail::attention_backward(shape, dq.data(), dk.data(), dv.data(), mask, y.data(), log_total.data(),
                                   dout.data(), dq.data(), dk.data(), dv.data(), dropout);
        return {back(y), back(dq), back(dk), back(dv)};
    }

    Attended plain() const {
        Attended a{std::vector<double>(q.size()), std::vector<double>(q.size()), std::vector<double>(k.size()),
                   std::vector<double>(v.size())};
        const double scale = 1.0 / std::sqrt(static_cast<double>(shape.head_width));
        std::vector<double> p(shape.keys);
        for (std::size_t row = 0; row < shape.rows(); ++row)
            for (std::size_t i = 0; i < shape.queries; ++i) {
                const auto at = [&](std::size_t length, std::size_t token) {
                    return (row / shape.heads * length + token) * shape.stride() + row % shape.heads * shape.head_width;
                };
                const std::size_t query = at(shape.queries, i);
                double total = 0.0, projection = 0.0;
                for (std::size_t j = 0; j < shape.keys; ++j) {
                    double score = 0.0;
                    const std::size_t key = at(shape.keys, j);
                    for (std::size_t c = 0; c < shape.head_width; ++c) score += scale * q[query + c] * k[key + c];
                    const bool seen = (!shape.causal || j <= i) &&
                                      (padding.empty() || padding[row / shape.heads * shape.keys + j] == 0.0);
                    total += p[j] = seen ? std::exp(score) : 0.0;
                }
                if (total == 0.0) continue;
                std::vector<double> dp(shape.keys);
                for (std::size_t j = 0; j < shape.keys; ++j) {
                    p[j] /= total;
                    const std::size_t key = at(shape.keys, j);
                    const double factor = dropout_factor(dropout, row, i, j);
                    for (std::size_t c = 0; c < shape.head_width; ++c) {
                        a.y[query + c] += factor * p[j] * v[key + c];
                        a.dv[key + c] += factor * p[j] * dy[query + c];
                        dp[j] += factor * dy[query + c] * v[key + c];
                    }
                    projection += p[j] * dp[j];
                }
                for (std::size_t j = 0; j < shape.keys; ++j) {
                    const std::size_t key = at(shape.keys, j);
                    const double ds = scale * p[j] * (dp[j] - projection);
                    for (std::size_t c = 0; c < shape.head_width; ++c) {
                        a.dq[query + c] += ds * k[key + c];
                        a.dk[key + c] += ds * q[query + c];
                    }
                }
            }
        return a;
    }
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::isnan(a[i])) return INFINITY;
        largest = std::max(largest, std::abs(a[i] - b[i]));
    }
    return largest;
}

template <class T>
void check(const Problem& problem, const Attended& plain) {
    const Attended tiled = problem.tiled<T>();
    // Sums of some thousand terms of order 1.
    const double tolerance = 4096 * static_cast<double>(std::numeric_limits<T>::epsilon());
    CAPTURE(tolerance);
    CHECK(largest_difference(tiled.y, plain.y) < tolerance);
    CHECK(largest_difference(tiled.dq, plain.dq) < tolerance);
    CHECK(largest_difference(tiled.dk, plain.dk) < tolerance);
    CHECK(largest_difference(tiled.dv, plain.dv) < tolerance);
}

void check(const AttentionShape& shape, bool padded, const detail::DropoutMask& dropout = {}) {
    CAPTURE(shape.queries);
    CAPTURE(shape.keys);
    CAPTURE(shape.causal);
    CAPTURE(padded);
    CAPTURE(dropout.threshold);
    const Problem problem(shape, padded, dropout);
    const Attended plain = problem.plain();
    check<float>(problem, plain);
    check<double>(problem, plain);
}

}  // namespace

TEST_CASE("tiles make up the whole matrix") {
    constexpr std::size_t rows = detail::AttentionHead<double>::causal_rows;
    constexpr std::size_t columns = detail::AttentionHead<double>::tile_columns;
    for (const bool causal : {false, true})
        for (const bool padded : {false, true}) {
            for (const std::size_t length : {1ul, 3ul, 17ul, rows, rows + 1})
                for (const detail::DropoutMask& dropout : {detail::DropoutMask{}, thirty_percent})
                    check({2, 2, length, length, 4, causal}, padded, dropout);
            for (const detail::DropoutMask& dropout : {detail::DropoutMask{}, thirty_percent}) {
                check({2, 1, columns + 5, columns + 5, 4, causal}, padded, dropout);
                check({2, 1, rows + 3, 2 * columns + 1, 3, false}, padded, dropout);
                check({2, 1, 2 * rows, 5, 3, false}, padded, dropout);
            }
        }
}

namespace {

/// The factors of the weights (B H, queries, keys), read off the output: equal scores, and the i-th value is the i-th
/// unit vector.
template <class T>
std::vector<T> factors_of(std::size_t batch, std::size_t heads, std::size_t queries, std::size_t keys,
                          const detail::DropoutMask& dropout) {
    const AttentionShape shape{batch, heads, queries, keys, keys, false};
    const std::vector<T> q(batch * queries * heads * keys), k(batch * keys * heads * keys);
    std::vector<T> v(k.size()), y(q.size()), log_total(shape.rows() * queries), factors;
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t j = 0; j < keys; ++j)
            for (std::size_t h = 0; h < heads; ++h) v[((b * keys + j) * heads + h) * keys + j] = static_cast<T>(keys);
    detail::attention_forward(shape, q.data(), k.data(), v.data(), static_cast<const T*>(nullptr), y.data(),
                              log_total.data(), dropout);
    for (std::size_t row = 0; row < shape.rows(); ++row)
        for (std::size_t i = 0; i < queries; ++i)
            for (std::size_t j = 0; j < keys; ++j)
                factors.push_back(y[((row / heads * queries + i) * heads + row % heads) * keys + j]);
    return factors;
}

/// How far a sum of `count` independent weights is from its expectation `count`, in its standard errors.
double deviations(double sum, std::size_t count, double rate) {
    return std::abs(sum - static_cast<double>(count)) / std::sqrt(rate / (1.0 - rate) * static_cast<double>(count));
}

// A normal deviate is beyond 5 once in 1.7 million; here some thousands are looked at, of fixed seeds.
constexpr double most_standard_errors = 5.0;

}  // namespace

TEST_CASE("dropout drops the share that it is to drop, in each head, query and key, and neighbours independently") {
    constexpr std::size_t batch = 3, heads = 2, queries = 150, keys = 90, rows = batch * heads;
    for (const double rate : {0.1, 0.5}) {
        const double scale = 1.0 / (1.0 - rate);
        const std::vector<double> factors =
            factors_of<double>(batch, heads, queries, keys,
                               {.seed = 7, .threshold = static_cast<std::uint32_t>(rate * 0x1p32), .scale = scale});
        double all = 0.0;
        std::vector<double> of_row(rows), of_query(queries), of_key(keys), products(5);
        const auto off = [&](std::size_t i) { return factors[i] - 1.0; };
        const std::size_t places[] = {1, keys, keys + 1, queries * keys,
                                      heads * queries * keys};  // key, query, head, sequence
        for (std::size_t i = 0; i < factors.size(); ++i) {
            const double f = factors[i];
            REQUIRE((std::abs(f) < 1e-12 || std::abs(f - scale) < 1e-12));
            all += f, of_row[i / (queries * keys)] += f, of_query[i / keys % queries] += f, of_key[i % keys] += f;
            for (std::size_t lag = 0; lag < 5; ++lag)
                if (i >= places[lag]) products[lag] += off(i) * off(i - places[lag]);
        }
        CHECK(deviations(all, factors.size(), rate) < most_standard_errors);
        for (const double sum : of_row) CHECK(deviations(sum, queries * keys, rate) < most_standard_errors);
        for (const double sum : of_query) CHECK(deviations(sum, rows * keys, rate) < most_standard_errors);
        for (const double sum : of_key) CHECK(deviations(sum, rows * queries, rate) < most_standard_errors);
        // Each product has variance (rate / (1 - rate))^2.
        for (std::size_t lag = 0; lag < 5; ++lag)
            CHECK(std::abs(products[lag]) * (1.0 - rate) / rate /
                      std::sqrt(static_cast<double>(factors.size() - places[lag])) <
                  most_standard_errors);
    }
}

TEST_CASE("what a weight's dropout is depends on its place alone: not on the scalar, nor on how much is around it") {
    constexpr std::size_t tile_columns = detail::AttentionHead<double>::tile_columns;
    constexpr std::size_t queries = detail::AttentionHead<double>::most_rows + 7, keys = tile_columns + 9;
    const std::vector<float> large = factors_of<float>(1, 2, queries, keys, thirty_percent);
    const std::vector<double> doubles = factors_of<double>(1, 2, queries, keys, thirty_percent);
    const std::vector<double> small = factors_of<double>(1, 2, 11, 13, thirty_percent);
    std::size_t differing = 0;
    for (std::size_t i = 0; i < large.size(); ++i) differing += (large[i] > 0.5f) != (doubles[i] > 0.5);
    for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t i = 0; i < queries; ++i)
            for (std::size_t j = 0; j < keys; ++j) {
                const bool kept = doubles[(row * queries + i) * keys + j] > 0.5;
                differing += kept != (dropout_factor(thirty_percent, row, i, j) > 0.0);
                if (i < 11 && j < 13) differing += kept != (small[(row * 11 + i) * 13 + j] > 0.5);
            }
    CHECK(differing == 0);
}

TEST_CASE("over seeds, the mean of what attention gives with dropout is what it gives without") {
    const Problem without({1, 2, 9, 9, 4, true}, false);
    const std::vector<double> expected = without.tiled<double>().y;
    constexpr std::size_t seeds = 2000;
    std::vector<double> sum(expected.size()), squares(expected.size());
    for (std::size_t seed = 0; seed < seeds; ++seed) {
        detail::DropoutMask mask = thirty_percent;
        mask.seed = seed;
        const std::vector<double> y = Problem(without.shape, false, mask).tiled<double>().y;
        for (std::size_t i = 0; i < y.size(); ++i) sum[i] += y[i], squares[i] += y[i] * y[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const double mean = sum[i] / seeds, variance = squares[i] / seeds - mean * mean;
        CHECK(variance > 0.0);
        CHECK(std::abs(mean - expected[i]) < most_standard_errors * std::sqrt(variance / seeds));
    }
}

TEST_CASE("a seed without a threshold changes no bit, and dropped weights hide no NaN") {
    const Problem without({2, 2, 30, 30, 4, true}, true);
    Problem seeded = without;
    seeded.dropout.seed = 99;
    const Attended a = without.tiled<float>(), b = seeded.tiled<float>();
    CHECK(a.y == b.y);
    CHECK(a.dq == b.dq);
    CHECK(a.dk == b.dk);
    CHECK(a.dv == b.dv);
    Problem poisoned({1, 1, 4, 4, 2, false}, false, {.seed = 1, .threshold = 0xffffffffu, .scale = 0x1p32});
    for (const double entry : poisoned.tiled<double>().y) CHECK(entry == 0.0);
    poisoned.q[0] = NAN;
    const std::vector<double> y = poisoned.tiled<double>().y;
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(y[2] == 0.0);
}

#ifdef _OPENMP
TEST_CASE("with dropout too, the number of threads changes no bit") {
    const Problem problem({8, 4, 160, 160, 32, true}, true, thirty_percent);
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    const Attended expected = problem.tiled<float>();
    for (const int threads : {2, 3}) {
        omp_set_num_threads(threads);
        CHECK(detail::threads_for(problem.shape.work()) == static_cast<std::size_t>(threads));
        const Attended got = problem.tiled<float>();
        CHECK(got.y == expected.y);
        CHECK(got.dq == expected.dq);
        CHECK(got.dk == expected.dk);
        CHECK(got.dv == expected.dv);
    }
    omp_set_num_threads(before);
}
#endif

TEST_CASE("the result is the same, bit for bit, from run to run") {
    const Problem problem({3, 2, 200, 200, 8, true}, false);
    const Attended first = problem.tiled<double>(), second = problem.tiled<double>();
    CHECK(first.y == second.y);
    CHECK(first.dq == second.dq);
    CHECK(first.dk == second.dk);
    CHECK(first.dv == second.dv);
}
