// The networks that `train` trains: a placement for each stack, and the factors that Admin starts from.
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/analysis/predict.hpp>
#include <normplace/placement/catalogue.hpp>
#include <string>
#include <vector>

#include "../../examples/train/networks.hpp"
#include "../../examples/train/predicted_branches.hpp"

namespace np = normplace;

namespace {

const np::TransformerOptions translation{.source_vocabulary = 50,
                                         .target_vocabulary = 60,
                                         .encoder_layers = 2,
                                         .decoder_layers = 3,
                                         .width = 16,
                                         .heads = 2,
                                         .feed_forward = 32,
                                         .activation = np::gelu};

/// The first number of each parameter of this name's end, in the network's order.
template <class Network>
std::vector<double> first_numbers(const Network& network, const std::string& prefix, const std::string& end) {
    std::vector<double> numbers;
    for (const auto& parameter : network.parameters())
        if (parameter.name.starts_with(prefix) && parameter.name.ends_with(end))
            numbers.push_back(static_cast<double>(parameter.value[0]));
    return numbers;
}

/// Admin's omega of each sublayer: the root of 1 and the branches before it.
std::vector<double> expected_factors(const std::vector<double>& branch_squares) {
    std::vector<double> factors;
    double sum = 1.0;
    for (const double square : branch_squares) {
        factors.push_back(static_cast<double>(static_cast<float>(std::sqrt(sum))));
        sum += square;
    }
    return factors;
}

void check_same(const std::vector<double>& got, const std::vector<double>& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("Admin's factors start from the predicted branches, those of a translation of both stacks") {
    const auto xavier = np::Initialization::xavier();
    const auto network = training::make_translation_network(
        "admin", "admin", training::with_predicted_branches(translation, "admin", "admin", xavier, 7, 9), xavier, 1);
    const np::EncoderDecoderReport report = np::predict_encoder_decoder<np::Admin, np::Admin>({.encoder_layers = 2,
                                                                                               .decoder_layers = 3,
                                                                                               .width = 16,
                                                                                               .heads = 2,
                                                                                               .feed_forward = 32,
                                                                                               .source = 7,
                                                                                               .target = 9,
                                                                                               .activation = np::gelu});
    const std::vector<double> encoder = report.encoder.branch_squares(), decoder = report.decoder.branch_squares();
    CHECK(encoder.size() == 4);
    CHECK(decoder.size() == 9);
    for (const double square : encoder) CHECK(square > 0.0);
    check_same(first_numbers(*network, "encoder.", "omega"), expected_factors(encoder));
    check_same(first_numbers(*network, "decoder.", "omega"), expected_factors(decoder));
}

TEST_CASE("Admin's factors of a language model, causal and masked, of any initialization") {
    for (const bool causal : {true, false})
        for (const np::Initialization& initialization : {np::Initialization::xavier(), np::Initialization::gpt2()}) {
            const np::LanguageModelOptions options{.vocabulary = 50,
                                                   .layers = 3,
                                                   .width = 16,
                                                   .heads = 2,
                                                   .feed_forward = 32,
                                                   .positions = 8,
                                                   .causal = causal};
            const auto network = training::make_language_network(
                "admin", training::with_predicted_branches(options, "admin", initialization), initialization, 1);
            const np::GradientReport report = np::predict<np::Admin>({.layers = 3,
                                                                      .width = 16,
                                                                      .heads = 2,
                                                                      .feed_forward = 32,
                                                                      .sequence = 8,
                                                                      .causal = causal,
                                                                      .initialization = initialization});
            check_same(first_numbers(*network, "stack.", "omega"), expected_factors(report.branch_squares()));
        }
}

TEST_CASE("a long window is predicted at a length that takes a moment") {
    const np::LanguageModelOptions options{
        .vocabulary = 50, .layers = 1, .width = 16, .heads = 2, .feed_forward = 32, .positions = 1'000'000};
    CHECK(training::with_predicted_branches(options, "admin", np::Initialization::xavier()).branch_squares.size() == 2);
}

TEST_CASE("other placements ask for no branches, and each stack is asked for itself") {
    const auto xavier = np::Initialization::xavier();
    const np::TransformerOptions none =
        training::with_predicted_branches(translation, "post-ln", "rezero", xavier, 7, 9);
    CHECK(none.encoder_branch_squares.empty());
    CHECK(none.decoder_branch_squares.empty());
    const np::TransformerOptions one = training::with_predicted_branches(translation, "pre-ln", "admin", xavier, 7, 9);
    CHECK(one.encoder_branch_squares.empty());
    CHECK(one.decoder_branch_squares.size() == 9);
    CHECK(training::with_predicted_branches(np::LanguageModelOptions{}, "pre-ln", xavier).branch_squares.empty());
}

TEST_CASE("each stack has its own placement") {
    const auto xavier = np::Initialization::xavier();
    const auto count = [&](const char* encoder, const char* decoder, const char* stack, const char* what) {
        return first_numbers(*training::make_translation_network(encoder, decoder, translation, xavier, 1), stack, what)
            .size();
    };
    // Pre-LN has a final norm, Post-LN none; rezero has learned factors.
    CHECK(count("pre-ln", "post-ln", "encoder.", "final_norm.gain") == 1);
    CHECK(count("pre-ln", "post-ln", "decoder.", "final_norm.gain") == 0);
    CHECK(count("post-ln", "pre-ln", "encoder.", "final_norm.gain") == 0);
    CHECK(count("post-ln", "pre-ln", "decoder.", "final_norm.gain") == 1);
}
