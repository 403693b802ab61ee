// The measurement itself: reproducible, independent of threads, its statistics, its errors. Whether it agrees with the
// prediction is tested in agreement.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <normplace/measure/measure.hpp>
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

namespace {

ReferenceModel small_model() {
    ReferenceModel model;
    model.layers = 2;
    model.width = 16;
    model.heads = 2;
    model.feed_forward = 32;
    model.sequence = 5;
    model.batch = 2;
    model.vocabulary = 11;
    return model;
}

std::vector<double> values(const GradientReport& report) {
    std::vector<double> all;
    for_each_quantity(report, [&](const std::string&, double value, double error) {
        all.push_back(value);
        all.push_back(error);
    });
    return all;
}
bool same(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    return true;
}

}  // namespace

TEST_CASE("the same seeds give the same report, whatever the number of threads") {
    const auto one = values(measure<PreLN>(small_model(), {.seeds = 5, .threads = 1}));
    CHECK(same(one, values(measure<PreLN>(small_model(), {.seeds = 5, .threads = 1}))));
    CHECK(same(one, values(measure<PreLN>(small_model(), {.seeds = 5, .threads = 2}))));
    CHECK_FALSE(same(one, values(measure<PreLN>(small_model(), {.seeds = 6, .threads = 1}))));
}

TEST_CASE("norms are root mean squares over seeds, with the standard error of that") {
    // Seeds are the same in every call, so the squares of single seeds follow from reports over 1, 2 and 3 of them.
    std::vector<double> mean_square;
    for (const std::size_t seeds : {1, 2, 3}) {
        const GradientNorm w2 = measure<PostLN, double>(small_model(), {.seeds = seeds}).layers[1].w2;
        mean_square.push_back(w2.norm * w2.norm);
    }
    const double a = mean_square[0], b = 2 * mean_square[1] - a, c = 3 * mean_square[2] - a - b;
    CHECK(a != doctest::Approx(b));
    const double mean = (a + b + c) / 3.0;
    const double variance = ((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2.0;
    const GradientReport report = measure<PostLN, double>(small_model(), {.seeds = 3});
    CHECK(report.layers[1].w2.norm == doctest::Approx(std::sqrt(mean)).epsilon(1e-10));
    CHECK(report.layers[1].w2.standard_error ==
          doctest::Approx(std::sqrt(variance / 3.0) / (2.0 * std::sqrt(mean))).epsilon(1e-8));
    CHECK(report.seeds == 3);
    CHECK(std::isnan(measure<PostLN>(small_model(), {.seeds = 1}).layers[0].wq.standard_error));
}

TEST_CASE("float and double measure the same thing") {
    // The draws differ (each scalar has its own distribution), so the two agree to their standard errors only.
    const GradientReport single = measure<PreLN, float>(small_model(), {.seeds = 200});
    const GradientReport twice = measure<PreLN, double>(small_model(), {.seeds = 200});
    const GradientNorm a = single.layers[1].w1, b = twice.layers[1].w1;
    CHECK(std::abs(a.norm - b.norm) < 4.0 * std::hypot(a.standard_error, b.standard_error));
}

TEST_CASE("every quantity of the model has a number, and only those") {
    ReferenceModel model = small_model();
    const auto absent = [](const GradientReport& report) {
        std::vector<std::string> names;
        for_each_quantity(report, [&](const std::string& name, double value, double) {
            if (std::isnan(value)) names.push_back(name);
        });
        return names;
    };
    using Names = std::vector<std::string>;
    CHECK(absent(measure<PreLN>(model)) == Names{"token_embedding.weight", "position_embedding.weight"});
    CHECK(absent(measure<PostLN>(model)) ==
          Names{"token_embedding.weight", "position_embedding.weight", "final_norm.gain", "final_norm.bias"});
    model.vocabulary = 256;
    CHECK(absent(measure<PeriLN>(model, {.seeds = 2, .text = std::string(64, 'a')})).empty());
    model.output_projection = false;
    const Names without_wo = absent(measure<PreLN>(model, {.seeds = 2, .text = std::string(64, 'a')}));
    CHECK(without_wo.size() == 4);
    CHECK(without_wo.front() == "layers.0.attention.out.weight");
}

TEST_CASE("the input's moments are the reference model's") {
    ReferenceModel model = small_model();
    model.width = 128;
    model.sequence = 16;
    const std::size_t seeds = 16;
    const GradientReport gaussian = measure<PreLN>(model, {.seeds = seeds});
    CHECK(std::abs(gaussian.input.second_moment.value - 1.0) < 5.0 * gaussian.input.second_moment.standard_error);
    CHECK(std::abs(gaussian.input.token_correlation.value) < 5.0 * gaussian.input.token_correlation.standard_error);
    // One byte repeated: tokens share E[byte], half of their second moment.
    model.vocabulary = 256;
    const GradientReport text = measure<PreLN>(model, {.seeds = seeds, .text = std::string(seeds * 32 + 1, 'x')});
    CHECK(std::abs(text.input.second_moment.value - 1.0) < 5.0 * text.input.second_moment.standard_error);
    CHECK(std::abs(text.input.token_correlation.value - 0.5) < 5.0 * text.input.token_correlation.standard_error);
}

TEST_CASE("RMSNorm, GELU and causal attention are measured as well") {
    ReferenceModel model = small_model();
    const auto plain = values(measure<PreLN>(model));
    model.norm = NormKind::rms_norm;
    const auto rms = values(measure<PreLN>(model));
    model.activation = gelu;
    const auto smooth = values(measure<PreLN>(model));
    model.causal = true;
    const auto causal = values(measure<PreLN>(model));
    CHECK_FALSE(same(plain, rms));
    CHECK_FALSE(same(rms, smooth));
    CHECK_FALSE(same(smooth, causal));
}

TEST_CASE("one token in a sequence has no token correlation") {
    ReferenceModel model = small_model();
    model.sequence = 1;
    CHECK(std::isnan(measure<PreLN>(model).input.token_correlation.value));
}

TEST_CASE("a caller's own parallel loop may measure") {
    const auto alone = values(measure<PreLN>(small_model(), {.seeds = 2}));
    int different = 0;
#ifdef _OPENMP
#pragma omp parallel for num_threads(3) reduction(+ : different)
#endif
    for (int i = 0; i < 6; ++i)
        if (!same(alone, values(measure<PreLN>(small_model(), {.seeds = 2})))) ++different;
    CHECK(different == 0);
}

TEST_CASE("progress counts every seed once") {
    std::vector<std::size_t> seen;
    measure<PreLN>(small_model(), {.seeds = 4, .progress = [&](std::size_t done, std::size_t total) {
                                       CHECK(total == 4);
                                       seen.push_back(done);
                                   }});
    CHECK(seen == std::vector<std::size_t>{1, 2, 3, 4});
}

TEST_CASE("wrong arguments are refused with their values") {
    ReferenceModel model = small_model();
    CHECK_THROWS_WITH(measure<PreLN>(model, {.seeds = 0}), "measure: seeds is 0, expected at least 1");
    CHECK_THROWS_WITH(measure<PreLN>(model, {.text = "some text"}),
                      "measure: with a text the tokens are bytes, so the vocabulary is 256, not 11");
    model.vocabulary = 256;
    CHECK_THROWS_WITH(measure<PreLN>(model, {.seeds = 3, .text = "too short"}),
                      "the text has 9 bytes; 3 batches of 2 sequences of 5 bytes need 31");
    CHECK_THROWS_WITH(measure<PreLN>(model, {.seeds = 1, .text = ""}),
                      "the text has 0 bytes; 1 batches of 2 sequences of 5 bytes need 11");
    model.heads = 3;
    CHECK_THROWS_WITH(measure<PreLN>(model), "ReferenceModel: width 16 is not divisible by 3 heads");
}

TEST_CASE("an exception in a seed reaches the caller") {
    CHECK_THROWS_WITH(
        measure<PreLN>(small_model(),
                       {.seeds = 4, .progress = [](std::size_t, std::size_t) { throw std::runtime_error("stop"); }}),
        "stop");
}
