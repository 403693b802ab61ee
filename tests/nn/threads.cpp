// The number of threads changes nothing but the order of some sums, and the same number gives the same bits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

#ifdef _OPENMP
namespace {

/// Everything that a step of one layer computes, in a size whose work is split.
template <class P>
std::vector<float> step(int threads) {
    omp_set_num_threads(threads);
    using Layer = EncoderLayer<P, float>;
    constexpr std::size_t batch = 3, sequence = 171, width = 128;  // 513 tokens: no thread's share is a round number
    Layer layer({.layers = 1, .width = width, .heads = 4, .feed_forward = 256, .activation = gelu});
    RandomEngine random(1);
    layer.initialize(random);
    Activations<float> x, y, dx;
    x.resize({batch, sequence, width});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = std::sin(static_cast<float>(i % 1009));
    typename Layer::Cache cache;
    typename Layer::Gradients gradients;
    zero_gradients(layer, gradients);
    layer.forward(x, y, cache);
    layer.backward(y, dx, cache, gradients);
    std::vector<float> all(y.begin(), y.end());
    all.insert(all.end(), dx.begin(), dx.end());
    for_each_parameter([&](const std::string&, const auto&,
                           const auto& gradient) { all.insert(all.end(), gradient.begin(), gradient.end()); },
                       layer, gradients);
    return all;
}

}  // namespace

TEST_CASE_TEMPLATE("results do not depend on the number of threads, but for rounding", P, PreLN, PostLN) {
    const int before = omp_get_max_threads();
    CHECK(
        (detail::threads_for(detail::product_work(513, 128, 128)) > 1 || detail::thread_count() == 1));  // it is split
    const std::vector<float> one = step<P>(1);
    double largest = 0.0;
    for (const float v : one) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (const int threads : {2, 3, 5}) {
        const std::vector<float> several = step<P>(threads), again = step<P>(threads);
        CHECK(several == again);
        double difference = 0.0;
        for (std::size_t i = 0; i < one.size(); ++i)
            difference = std::max(difference, std::abs(static_cast<double>(one[i]) - static_cast<double>(several[i])));
        CAPTURE(threads);
        CHECK(difference < 64 * static_cast<double>(std::numeric_limits<float>::epsilon()) * largest);
    }
    omp_set_num_threads(before);
}

TEST_CASE("small work stays on one thread") {
    CHECK(detail::threads_for(0.0) == 1);
    CHECK(detail::threads_for(detail::product_work(32, 32, 32)) == 1);
}
#endif
