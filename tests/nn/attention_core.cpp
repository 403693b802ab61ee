// The tiled attention, against the plain one that makes the whole matrix of weights: lengths within a tile, at its edge
// and beyond it, causal and not, with padding that hides whole tiles and whole rows.
#include <doctest/doctest.h>

#include <cmath>
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

struct Attended {
    std::vector<double> y, dq, dk, dv;
};

struct Problem {
    AttentionShape shape;
    std::vector<double> q, k, v, dy, padding;

    Problem(const AttentionShape& s, bool padded) : shape(s) {
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
        detail::attention_forward(shape, dq.data(), dk.data(), dv.data(), mask, y.data(), log_total.data());
        detail::attention_backward(shape, dq.data(), dk.data(), dv.data(), mask, y.data(), log_total.data(),
                                   dout.data(), dq.data(), dk.data(), dv.data());
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
                    for (std::size_t c = 0; c < shape.head_width; ++c) {
                        a.y[query + c] += p[j] * v[key + c];
                        a.dv[key + c] += p[j] * dy[query + c];
                        dp[j] += dy[query + c] * v[key + c];
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

void check(const AttentionShape& shape, bool padded) {
    CAPTURE(shape.queries);
    CAPTURE(shape.keys);
    CAPTURE(shape.causal);
    CAPTURE(padded);
    const Problem problem(shape, padded);
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
                check({2, 2, length, length, 4, causal}, padded);
            check({2, 1, columns + 5, columns + 5, 4, causal}, padded);
            check({2, 1, rows + 3, 2 * columns + 1, 3, false}, padded);
            check({2, 1, 2 * rows, 5, 3, false}, padded);
        }
}

TEST_CASE("the result is the same, bit for bit, from run to run") {
    const Problem problem({3, 2, 200, 200, 8, true}, false);
    const Attended first = problem.tiled<double>(), second = problem.tiled<double>();
    CHECK(first.y == second.y);
    CHECK(first.dq == second.dq);
    CHECK(first.dk == second.dk);
    CHECK(first.dv == second.dv);
}
