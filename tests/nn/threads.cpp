// The number of threads changes nothing but the order of some sums, and the same number gives the same bits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <normplace/nn/cross_entropy.hpp>
#include <normplace/nn/dyt.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

#include "all_inner_norms.hpp"

using namespace normplace;

#ifdef _OPENMP
namespace {

// Enough for the work on each scalar, the norm's and the residual addition's, to be split as the products are. No
// thread's share is a round number.
constexpr std::size_t batch = 229, sequence = 7, row_width = 128;

/// Everything that a step of one layer computes.
template <class P>
std::vector<float> layer_step(int threads) {
    omp_set_num_threads(threads);
    using Layer = EncoderLayer<P, float>;
    Layer layer({.layers = 1, .width = row_width, .heads = 4, .feed_forward = 32, .activation = gelu});
    RandomEngine random(1);
    layer.initialize(random);
    Activations<float> x, y, dx;
    x.resize({batch, sequence, row_width});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i * i % 1009) / 504.0f - 1.0f;
    typename Layer::Cache cache;
    typename Layer::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache);
    layer.backward(y, dx, cache, gradients);
    std::vector<float> all(y.data(), y.data() + y.size());
    all.insert(all.end(), dx.data(), dx.data() + dx.size());
    for_each_parameter(
        [&](const std::string&, const auto&, const auto& gradient) {
            all.insert(all.end(), gradient.data(), gradient.data() + gradient.size());
        },
        layer, gradients);
    return all;
}

/// Everything that a step of one sublayer, or of one norm, computes.
template <class S>
std::vector<double> sublayer_step(int threads, const typename S::Options& options) {
    omp_set_num_threads(threads);
    S layer(options);
    RandomEngine random(1);
    if constexpr (requires { layer.initialize(Initializer(random)); }) layer.initialize(Initializer(random));
    Activations<double> x, y, dx;
    x.resize({batch, sequence, row_width});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<double>(i * i % 1009) / 504.0 - 1.0;
    typename S::Cache cache;
    typename S::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache);
    layer.backward(y, dx, cache, gradients);
    std::vector<double> all(y.data(), y.data() + y.size());
    all.insert(all.end(), dx.data(), dx.data() + dx.size());
    for_each_parameter(
        [&](const std::string&, const auto&, const auto& gradient) {
            all.insert(all.end(), gradient.data(), gradient.data() + gradient.size());
        },
        layer, gradients);
    return all;
}

/// The largest difference between one thread's and `threads` threads' step, relative to the largest entry.
template <class S>
double thread_difference(int threads, const typename S::Options& options) {
    const std::vector<double> one = sublayer_step<S>(1, options), several = sublayer_step<S>(threads, options);
    double largest = 0.0, difference = 0.0;
    for (std::size_t i = 0; i < one.size(); ++i) {
        largest = std::max(largest, std::abs(one[i]));
        difference = std::max(difference, std::abs(one[i] - several[i]));
    }
    return difference / largest;
}

}  // namespace

TEST_CASE_TEMPLATE("results do not depend on the number of threads, but for rounding", P, PreLN, PostLN) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(2);
    CHECK(detail::threads_for(batch * sequence * row_width) == 2);  // the norm's work is split
    const std::vector<float> one = layer_step<P>(1);
    double largest = 0.0;
    for (const float v : one) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (const int threads : {2, 5}) {
        const std::vector<float> several = layer_step<P>(threads), again = layer_step<P>(threads);
        CHECK(several == again);
        double difference = 0.0;
        for (std::size_t i = 0; i < one.size(); ++i)
            difference = std::max(difference, std::abs(static_cast<double>(one[i]) - static_cast<double>(several[i])));
        CAPTURE(threads);
        CHECK(difference < 64 * static_cast<double>(std::numeric_limits<float>::epsilon()) * largest);
    }
    omp_set_num_threads(before);
}

TEST_CASE("nor do those of the norms inside a sublayer") {
    const int before = omp_get_max_threads();
    for (const int threads : {2, 5}) {
        CHECK(thread_difference<MultiHeadAttention<double>>(
                  threads, {.width = row_width, .heads = 4, .norms = test::all_inner_norms}) < 1e-13);
        CHECK(thread_difference<FeedForward<double>>(
                  threads, {.width = row_width, .feed_forward = 150, .norms = test::all_inner_norms}) < 1e-13);
    }
    omp_set_num_threads(before);
}

TEST_CASE_TEMPLATE("nor do those of a norm", N, ScaleNorm<double>, CentreNorm<double>, UnitOffsetRMSNorm<double>,
                   DyT<double>) {
    const int before = omp_get_max_threads();
    for (const int threads : {2, 5}) CHECK(thread_difference<N>(threads, {.width = row_width}) < 1e-13);
    omp_set_num_threads(before);
}

TEST_CASE("the cross-entropy, in place, does not depend on the number of threads, but for rounding") {
    const int before = omp_get_max_threads();
    Activations<double> logits, expected;
    logits.resize({2, 551, 50});
    for (std::size_t i = 0; i < logits.size(); ++i) logits.data()[i] = 3.0 * std::sin(static_cast<double>(i % 1009));
    Tokens targets;
    targets.resize({2, 551});
    for (std::size_t i = 0; i < targets.size(); ++i) targets.data()[i] = static_cast<int>(i % 50);
    omp_set_num_threads(1);
    const double loss = cross_entropy(logits, targets, expected);
    omp_set_num_threads(2);
    CHECK(detail::threads_for(4.0 * static_cast<double>(logits.size())) == 2);
    CHECK(cross_entropy(logits, targets, logits) == doctest::Approx(loss).epsilon(1e-14));
    double difference = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i)
        difference = std::max(difference, std::abs(logits.data()[i] - expected.data()[i]));
    CHECK(difference < 1e-17);  // of at most 1 / 1102
    omp_set_num_threads(before);
}

TEST_CASE("small work stays on one thread") {
    CHECK(detail::threads_for(0.0) == 1);
    CHECK(detail::threads_for(detail::product_work(32, 32, 32)) == 1);
}
#endif
