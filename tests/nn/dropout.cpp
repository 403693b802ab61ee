// Dropout: its gradient, what it leaves alone, and its random numbers.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <normplace/nn/attention.hpp>
#include <normplace/nn/dropout.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/catalogue.hpp>

#include "gradient_check.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

template <class T>
Activations<T> filled(std::size_t b, std::size_t s, std::size_t d, T value = T(1)) {
    Activations<T> x;
    x.resize({b, s, d});
    x.fill(value);
    return x;
}

/// 1 where an entry is kept, 0 where it is dropped.
std::vector<int> mask(std::size_t size, const DropoutKey& key) {
    Activations<float> x = filled<float>(1, 1, size);
    dropout(x, x, key);
    std::vector<int> kept(size);
    for (std::size_t i = 0; i < size; ++i) kept[i] = x.data()[i] > 0.0f;
    return kept;
}

/// The correlation of a[i] with b[i + lag], each 1 with probability `keep`, in units of its standard error.
double correlation(const std::vector<int>& a, const std::vector<int>& b, std::size_t lag, double keep) {
    double sum = 0.0;
    const std::size_t count = a.size() - lag;
    for (std::size_t i = 0; i < count; ++i) sum += (a[i] - keep) * (b[i + lag] - keep);
    return sum / (keep * (1.0 - keep)) / std::sqrt(static_cast<double>(count));
}

// A normal deviate is beyond 5 once in 1.7 million; the tests look at some thousands, whose seeds are fixed.
constexpr double most_deviations = 5.0;

/// A block whose forward sets the key of its own dropout, so that the shared gradient check can run it.
template <class Block>
struct Keyed : Block {
    using Block::Block;
    DropoutKey key;

    template <class... Context>
    void forward(const Activations<double>& x, Activations<double>& y, typename Block::Cache& cache,
                 const Context&... context) const {
        cache.sublayer.dropout = key;
        Block::forward(x, y, cache, context...);
    }
};

}  // namespace

TEST_CASE_TEMPLATE("the gradient of a block with dropout is its derivative", P, PreLN, PostLN, PeriLN, DeepNorm) {
    Keyed<ResidualBlock<P, Dropout<FeedForward<double>>>> feed_forward(
        FeedForwardOptions{.width = 6, .feed_forward = 8, .activation = gelu}, Depth{2, 3});
    feed_forward.key = {.seed = 3, .rate = 0.4};
    check_layer(feed_forward, 2, 3, 1);
    Keyed<ResidualBlock<P, Dropout<MultiHeadAttention<double>>>> attention(AttentionOptions{.width = 6, .heads = 2},
                                                                           Depth{2, 3});
    attention.key = {.seed = 4, .rate = 0.4};
    KeyPaddingMask padding({2, 3}, false);
    padding(1, 2) = true;
    check_layer(attention, 2, 3, 2, padding);
}

TEST_CASE("a sublayer's context goes through: a memory, its mask and its gradient") {
    const Dropout<CrossAttention<double>> layer(AttentionOptions{.width = 6, .heads = 2});
    Dropout<CrossAttention<double>> random = layer;
    randomize_parameters(random, 1);
    const Activations<double> dy = random_activations(2, 3, 6, 4);
    Activations<double> x = random_activations(2, 3, 6, 2), memory = random_activations(2, 4, 6, 3), y, dx, dmemory;
    KeyPaddingMask padding({2, 4}, false);
    padding(0, 1) = true;
    Dropout<CrossAttention<double>>::Cache cache;
    Dropout<CrossAttention<double>>::Gradients gradients;
    zero_gradients(random, gradients);
    cache.dropout = {.seed = 5, .rate = 0.5};
    random.forward(x, y, cache, memory, padding);
    cache.dropout = {};  // for the next forward: this one's backward has its own
    random.backward(dy, dx, cache, gradients, dmemory);
    std::vector<Checked> all{checked("x", x, dx), checked("memory", memory, dmemory)};
    add_parameters(all, random, gradients);
    check_gradients(all, [&] {
        Dropout<CrossAttention<double>>::Cache scratch;
        scratch.dropout = {.seed = 5, .rate = 0.5};
        random.forward(x, y, scratch, memory, padding);
        return dot(y, dy);
    });
}

TEST_CASE("a key's rate inside the sublayer reaches what is inside it, and its key is another than the output's") {
    const DropoutKey key{.seed = 6, .rate = 0.1, .attention_rate = 0.2, .activation_rate = 0.3};
    Dropout<MultiHeadAttention<double>>::Cache attention_cache;
    Dropout<FeedForward<double>>::Cache feed_forward_cache;
    const Dropout<MultiHeadAttention<double>> attention(AttentionOptions{.width = 6, .heads = 2});
    const Dropout<FeedForward<double>> feed_forward(FeedForwardOptions{.width = 6, .feed_forward = 8});
    const Activations<double> x = random_activations(2, 3, 6, 2);
    Activations<double> y;
    attention_cache.dropout = feed_forward_cache.dropout = key;
    attention.forward(x, y, attention_cache);
    feed_forward.forward(x, y, feed_forward_cache);
    CHECK(attention_cache.used_dropout.rate == 0.2);
    CHECK(feed_forward_cache.used_dropout.rate == 0.3);
    CHECK(attention_cache.used_dropout.seed != key.seed);
    for (std::uint64_t site = 0; site < 1000; ++site) CHECK(attention_cache.used_dropout.seed != key.at(site).seed);
    // Deeper places keep all rates.
    CHECK(key.at(1).at(2).rate == 0.1);
    CHECK(key.at(1).at(2).attention_rate == 0.2);
    CHECK(key.at(1).at(2).activation_rate == 0.3);
    attention_cache.dropout = feed_forward_cache.dropout = {};
    attention.forward(x, y, attention_cache);
    feed_forward.forward(x, y, feed_forward_cache);
    CHECK(attention_cache.used_dropout.rate == 0.0);
    CHECK(feed_forward_cache.used_dropout.rate == 0.0);
}

TEST_CASE_TEMPLATE("gradients with all three rates", P, PreLN, PostLN) {
    Keyed<ResidualBlock<P, Dropout<FeedForward<double>>>> feed_forward(
        FeedForwardOptions{.width = 6, .feed_forward = 8}, Depth{2, 3});
    feed_forward.key = {.seed = 3, .rate = 0.3, .attention_rate = 0.0, .activation_rate = 0.4};
    check_layer(feed_forward, 2, 3, 1);
    Keyed<ResidualBlock<P, Dropout<MultiHeadAttention<double>>>> attention(
        AttentionOptions{.width = 6, .heads = 2, .causal = true}, Depth{2, 3});
    attention.key = {.seed = 4, .rate = 0.3, .attention_rate = 0.4};
    check_layer(attention, 2, 4, 2);
}

TEST_CASE("an entry is 0, or 1 / (1 - rate) of what it was") {
    const FeedForwardOptions options{.width = 8, .feed_forward = 16};
    Dropout<FeedForward<float>> layer(options);
    randomize_parameters(layer, 1);
    const Activations<double> doubles = random_activations(3, 5, 8, 2);
    Activations<float> x = doubles, plain, y, dx;
    Dropout<FeedForward<float>>::Cache cache;
    layer.FeedForward<float>::forward(x, plain, cache);
    cache.dropout = {.seed = 1, .rate = 0.25};
    layer.forward(x, y, cache);
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
        dropped += y.data()[i] == 0.0f;
        if (y.data()[i] != 0.0f) CHECK(y.data()[i] == static_cast<float>(1.0 / 0.75) * plain.data()[i]);
    }
    CHECK(dropped > 10);  // of 120; 30 are expected
    CHECK(dropped < 60);
}

TEST_CASE("without a rate it is the sublayer, bit for bit") {
    const FeedForwardOptions options{.width = 8, .feed_forward = 16};
    Dropout<FeedForward<float>> layer(options);
    randomize_parameters(layer, 1);
    const FeedForward<float>& plain = layer;
    const Activations<double> doubles = random_activations(3, 5, 8, 2);
    const Activations<float> x = doubles;
    const auto outcome = [&](const auto& sublayer, auto cache, std::uint64_t seed) {
        if constexpr (requires { cache.dropout; }) cache.dropout = {.seed = seed, .rate = 0.0};
        Activations<float> y, dx;
        FeedForward<float>::Gradients gradients;
        zero_gradients(plain, gradients);
        sublayer.forward(x, y, cache);
        sublayer.backward(x, dx, cache, gradients);
        std::vector<float> all(y.data(), y.data() + y.size());
        all.insert(all.end(), dx.data(), dx.data() + dx.size());
        all.insert(all.end(), gradients.linear1.weight.data(),
                   gradients.linear1.weight.data() + gradients.linear1.weight.size());
        return all;
    };
    const std::vector<float> expected = outcome(plain, FeedForward<float>::Cache{}, 0);
    CHECK(outcome(layer, Dropout<FeedForward<float>>::Cache{}, 0) == expected);
    CHECK(outcome(layer, Dropout<FeedForward<float>>::Cache{}, 7) == expected);
    Activations<float> y;
    dropout(x, y, DropoutKey{});
    CHECK(y == x);
}

TEST_CASE("parameters keep their names") {
    Dropout<FeedForward<float>> layer(FeedForwardOptions{.width = 2, .feed_forward = 3});
    std::vector<std::string> names;
    for_each_parameter([&](const std::string& name, const auto&) { names.push_back(name); }, layer);
    CHECK(names == std::vector<std::string>{"linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"});
}

TEST_CASE("the share that is kept is 1 - rate, of all entries, of each column and of each bit of the index") {
    constexpr std::size_t size = 1 << 20, width = 512;
    for (const double rate : {0.1, 0.5, 0.9})
        for (const std::uint64_t seed : {0u, 1u, 2u}) {
            CAPTURE(rate);
            CAPTURE(seed);
            const std::vector<int> kept = mask(size, {seed, rate});
            const auto deviations = [&](double sum, double count) {
                return std::abs(sum - (1.0 - rate) * count) / std::sqrt(rate * (1.0 - rate) * count);
            };
            double all = 0.0;
            std::vector<double> columns(width);
            std::array<double, 20> bits{};
            for (std::size_t i = 0; i < size; ++i) {
                all += kept[i];
                columns[i % width] += kept[i];
                for (std::size_t bit = 0; bit < 20; ++bit) bits[bit] += i >> bit & 1 ? kept[i] : 0;
            }
            CHECK(deviations(all, size) < most_deviations);
            for (const double sum : bits) CHECK(deviations(sum, size / 2) < most_deviations);
            // The columns' deviations squared make a chi-squared of 512 degrees: mean 512, variance 2 * 512.
            double chi_squared = 0.0;
            for (const double sum : columns) chi_squared += std::pow(deviations(sum, size / width), 2.0);
            CHECK(std::abs(chi_squared - width) < most_deviations * std::sqrt(2.0 * width));
        }
}

TEST_CASE("neighbouring entries, rows and keys are independent") {
    constexpr std::size_t size = 1 << 18;
    for (const double rate : {0.1, 0.5}) {
        CAPTURE(rate);
        const DropoutKey key{.seed = 5, .rate = rate};
        const std::vector<int> kept = mask(size, key);
        for (std::size_t lag = 1; lag <= 64; ++lag) CHECK(std::abs(correlation(kept, kept, lag, 1.0 - rate)) < 5.0);
        for (const std::size_t lag : {128u, 256u, 512u, 1000u, 1024u, 4096u, 65536u})
            CHECK(std::abs(correlation(kept, kept, lag, 1.0 - rate)) < most_deviations);
        // Neighbouring seeds, seeds that differ in one bit, sites, and sites of sites.
        std::vector<DropoutKey> others;
        for (int bit = 0; bit < 64; ++bit) others.push_back({key.seed ^ std::uint64_t{1} << bit, rate});
        for (std::uint64_t site = 0; site < 32; ++site) {
            others.push_back(key.at(site));
            others.push_back(key.at(1).at(site));
        }
        others.push_back(key.at(2).at(1));
        for (std::size_t a = 0; a < others.size(); ++a) {
            CAPTURE(a);
            const std::vector<int> other = mask(size, others[a]);
            for (const std::size_t lag : {0u, 1u, 2u, 512u}) {
                CHECK(std::abs(correlation(kept, other, lag, 1.0 - rate)) < most_deviations);
                CHECK(std::abs(correlation(other, kept, lag, 1.0 - rate)) < most_deviations);
            }
        }
        CHECK(key.at(3).rate == rate);
    }
}

TEST_CASE("no two seeds, sites or sites of sites have the same key") {
    std::set<std::uint64_t> seen;
    std::size_t count = 0;
    for (std::uint64_t seed = 0; seed < 32; ++seed)
        for (std::uint64_t site = 0; site < 32; ++site) {
            const DropoutKey key = DropoutKey{seed}.at(site);
            seen.insert(key.seed);
            for (std::uint64_t inner = 0; inner < 32; ++inner) seen.insert(key.at(inner).seed);
            count += 33;
        }
    CHECK(seen.size() == count);
}

TEST_CASE("every scalar, length, alignment and offset draws the same") {
    const DropoutKey key{.seed = 9, .rate = 0.3};
    const std::vector<int> expected = mask(300, key);
    for (std::size_t length = 1; length < 150; ++length) {
        Activations<double> x = filled(1, 1, length, 1.0), y;
        dropout(x, y, key);
        for (std::size_t i = 0; i < length; ++i) REQUIRE((y.data()[i] > 0.0) == (expected[i] == 1));
        const std::vector<int> shorter = mask(length, key);
        REQUIRE(std::equal(shorter.begin(), shorter.end(), expected.begin()));
    }
}

#ifdef _OPENMP
TEST_CASE("the number of threads changes nothing") {
    constexpr std::size_t size = 1000003;
    const DropoutKey key{.seed = 2, .rate = 0.5};
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    const std::vector<int> expected = mask(size, key);
    for (const int threads : {2, 3, 7}) {
        omp_set_num_threads(threads);
        CHECK(mask(size, key) == expected);
    }
    omp_set_num_threads(before);
}
#endif

#if defined(__x86_64__)
TEST_CASE_TEMPLATE("every instruction set draws the same, wherever the rows begin", T, float, double) {
    using namespace normplace::detail;
    const auto outcome = [](InstructionSet set, std::size_t offset, std::uint32_t index,
                            std::uint64_t key = 0x0123456789abcdefu) {
        std::vector<T> x(200, T(1)), y(200, T(-1));
        const std::uint32_t threshold = 1u << 30;
        T *from = x.data() + offset, *to = y.data() + offset;
        if (set == InstructionSet::baseline) baseline::dropout(from, to, 117, index, key, threshold, T(2));
        if (set == InstructionSet::avx2) avx2::dropout(from, to, 117, index, key, threshold, T(2));
        if (set == InstructionSet::avx512) avx512::dropout(from, to, 117, index, key, threshold, T(2));
        for (std::size_t i = 0; i < y.size(); ++i) REQUIRE((y[i] < T(0)) == (i < offset || i >= offset + 117));
        return std::vector<T>(to, to + 117);
    };
    const std::vector<T> expected = outcome(InstructionSet::baseline, 0, 40);
    for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
        if (set > instruction_set()) continue;
        for (std::size_t offset = 0; offset < 20; ++offset) CHECK(outcome(set, offset, 40) == expected);
        for (int bit = 0; bit < 64; ++bit)  // each half of the key counts
            CHECK(outcome(set, 0, 40, 0x0123456789abcdefu ^ std::uint64_t{1} << bit) != expected);
        const std::vector<T> later = outcome(set, 0, 90), last = outcome(set, 0, 0xffffffffu - 116);
        CHECK(std::equal(expected.begin() + 50, expected.end(), later.begin()));
        CHECK(std::count(last.begin(), last.end(), T(0)) > 0);
        CHECK(std::count(last.begin(), last.end(), T(2)) > 60);
    }
}
#endif

TEST_CASE("a dropped NaN or infinity is not hidden") {
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    Activations<double> x = filled(1, 1, 64, nan), y;
    dropout(x, y, {.seed = 1, .rate = 0.5});
    for (const double v : y) CHECK(std::isnan(v));
    x.fill(infinity);
    dropout(x, y, {.seed = 1, .rate = 0.5});
    for (const double v : y) CHECK_FALSE(std::isfinite(v));
}

TEST_CASE("rates next to 0 and to 1 have an answer") {
    const std::vector<int> all = mask(1000, {1, 1e-300}), none = mask(1000, {1, std::nextafter(1.0, 0.0)});
    CHECK(std::count(all.begin(), all.end(), 1) == 1000);
    CHECK(std::count(none.begin(), none.end(), 1) == 0);
}

TEST_CASE("wrong arguments are refused with their values") {
    Activations<double> x = filled(1, 1, 4, 1.0), y;
    CHECK_THROWS_WITH(dropout(x, y, {.seed = 0, .rate = 1.0}), "Dropout: rate is 1, expected a number in [0, 1)");
    CHECK_THROWS_WITH(dropout(x, y, {.seed = 0, .rate = -0.5}), "Dropout: rate is -0.5, expected a number in [0, 1)");
    CHECK_THROWS_WITH(dropout(x, y, {.seed = 0, .rate = std::numeric_limits<double>::quiet_NaN()}),
                      "Dropout: rate is nan, expected a number in [0, 1)");
    const Dropout<FeedForward<double>> layer(FeedForwardOptions{.width = 4, .feed_forward = 3});
    Dropout<FeedForward<double>>::Cache cache;
    cache.dropout.rate = 1.5;
    CHECK_THROWS_WITH(layer.forward(x, y, cache), "Dropout: rate is 1.5, expected a number in [0, 1)");
    cache.dropout = {.seed = 0, .rate = 0.0, .attention_rate = 1.25};
    CHECK_THROWS_WITH(layer.forward(x, y, cache), "Dropout: attention_rate is 1.25, expected a number in [0, 1)");
    cache.dropout = {.seed = 0, .rate = 0.0, .attention_rate = 0.0, .activation_rate = -1.0};
    CHECK_THROWS_WITH(layer.forward(x, y, cache), "Dropout: activation_rate is -1, expected a number in [0, 1)");
    cache.dropout = {};
    check_cache(layer, Dropout<FeedForward<double>>(FeedForwardOptions{.width = 4, .feed_forward = 5}), "FeedForward",
                "FeedForward: the cache's activated has shape (1, 2, 5), expected (1, 2, 3)");
    cache.dropout.rate = 0.5;
    layer.forward(x, y, cache);
    Dropout<FeedForward<double>>::Gradients gradients;
    CHECK_THROWS_WITH(layer.backward(y, y, cache, gradients), "Dropout: dy and dx are the same tensor");
}
