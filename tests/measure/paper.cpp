// Xiong et al. 2020's statements against measurement, in the paper's own model: Lemma 2's bounds and Theorem 1's
// slopes.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <normplace/analysis.hpp>
#include <normplace/measure/measure.hpp>

using namespace normplace;

namespace {

/// The least-squares slope of ln ||dLoss/dW_2|| of the last layer against ln L.
template <class Report>
double slope(const std::vector<std::size_t>& depths, Report&& report) {
    double x_mean = 0.0, y_mean = 0.0, square = 0.0, product = 0.0;
    std::vector<double> x, y;
    for (const std::size_t layers : depths) {
        x.push_back(std::log(static_cast<double>(layers)));
        y.push_back(std::log(report(ReferenceModel::paper(layers, 256, 16)).layers.back().w2.norm));
        x_mean += x.back() / static_cast<double>(depths.size());
        y_mean += y.back() / static_cast<double>(depths.size());
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        square += (x[i] - x_mean) * (x[i] - x_mean);
        product += (x[i] - x_mean) * (y[i] - y_mean);
    }
    return product / square;
}

}  // namespace

TEST_CASE("Theorem 1: the last layer's gradient is L^0 for Post-LN and L^(-1/2) for Pre-LN") {
    // Four points from 2 to 24 and norms good to 1.5 %: the slope's standard error is below 0.01.
    const std::vector<std::size_t> depths{2, 6, 12, 24};
    const auto predicted = [](auto placement) {
        return [](const ReferenceModel& model) { return predict<decltype(placement)>(model); };
    };
    const auto measured = [](auto placement) {
        return [](const ReferenceModel& model) { return measure<decltype(placement)>(model, {.seeds = 32}); };
    };
    const double post = slope(depths, measured(PostLN{})), pre = slope(depths, measured(PreLN{}));
    MESSAGE("measured slopes: Post-LN ", post, ", Pre-LN ", pre);
    CHECK(std::abs(post) < 0.03);
    CHECK(std::abs(pre + 0.5) < 0.05);
    CHECK(std::abs(slope(depths, predicted(PostLN{}))) < 0.03);
    CHECK(std::abs(slope(depths, predicted(PreLN{})) + 0.5) < 0.05);
}

TEST_CASE("Lemma 2: Pre-LN's stream grows inside its bounds, and how fast depends on the number of tokens") {
    std::vector<double> last;
    for (const std::size_t sequence : {2, 8, 32}) {
        const ReferenceModel model = ReferenceModel::paper(8, 128, sequence);
        const GradientReport measured = measure<PreLN>(model, {.seeds = 32}), predicted = predict<PreLN>(model);
        for (std::size_t l = 1; l <= model.layers; ++l) {
            const Moment m = measured.layers[l - 1].feed_forward.stream.second_moment;
            const auto bounds = paper::lemma2_pre_ln(model.width, l);
            INFO("sequence ", sequence, ", layer ", l, ": ", m.value, " +- ", m.standard_error);
            CHECK(m.value * static_cast<double>(model.width) > bounds.lower);
            CHECK(m.value * static_cast<double>(model.width) < bounds.upper);
            // 1 % for the theory's 1/D.
            const double p = predicted.layers[l - 1].feed_forward.stream.second_moment.value;
            CHECK(std::abs(p - m.value) < 0.01 * m.value + 3.0 * m.standard_error);
        }
        last.push_back(measured.layers.back().feed_forward.stream.second_moment.value);
    }
    // Fewer tokens average less away: 3.6 at 32 tokens against 4.7 at 2, or so.
    CHECK(last[0] > 1.05 * last[1]);
    CHECK(last[1] > 1.02 * last[2]);
}

TEST_CASE("Lemma 2: Post-LN's sum before the norm has second moment 3/2") {
    // Without the second norm, that sum is the block's output; the feed-forward's input is normalised, as Post-LN's is.
    const ReferenceModel model = ReferenceModel::paper(1, 256, 16);
    ResidualBlock<NoNorm, FeedForward<double>> block({.width = model.width, .feed_forward = model.feed_forward});
    Activations<double> x, y;
    x.resize({1, 256, model.width});
    decltype(block)::Cache cache;
    const LayerNorm<double> norm(NormOptions{model.width});
    LayerNorm<double>::Cache norm_cache;
    double mean = 0.0;
    const std::size_t seeds = 16;
    for (std::size_t seed = 0; seed < seeds; ++seed) {
        RandomEngine random(seed);
        block.initialize(random, model.initialization);
        detail::fill_gaussian(x.data(), x.size(), 1.0, random);
        norm.forward(x, x, norm_cache);
        block.forward(x, y, cache);
        for (const double entry : y.storage()) mean += entry * entry / static_cast<double>(y.size() * seeds);
    }
    CHECK(mean * 256.0 == doctest::Approx(paper::lemma2_post_ln(256)).epsilon(0.01));
}
