// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/checkpoint.hpp>
#include <normplace/nn/linear.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "temporary_folder.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

template <class T>
Linear<T> linear_of(std::size_t in, std::size_t out, T first) {
    Linear<T> linear(in, out);
    for (const NamedTensor<T>& tensor : named_parameters(linear))
        for (T& entry : tensor.entries) entry = first++;
    return linear;
}

/// What an optimizer keeps for one weight, and the tensors that a checkpoint is made from.
template <class T>
struct Run {
    Linear<T> model;
    std::vector<T> momentum;

    explicit Run(T first) : model(linear_of<T>(3, 2, first)), momentum(6, first) {}
    std::vector<NamedTensor<T>> parameters() { return named_parameters(model); }
    std::vector<NamedTensor<T>> optimizer() { return {{"momentum.weight", {2, 3}, momentum}}; }
    std::vector<T> everything() {
        std::vector<T> all = momentum;
        for (const NamedTensor<T>& tensor : parameters())
            all.insert(all.end(), tensor.entries.begin(), tensor.entries.end());
        return all;
    }
};

const std::string configuration = R"({"width": 3, "placement": "pre-ln"})";

CheckpointState some_state() {
    CheckpointState state;
    state.configuration = configuration;
    state.step = std::numeric_limits<std::uint64_t>::max();
    state.epoch = 2;
    state.position = 3;
    state.seed = 4;
    state.updates = 5;
    state.best_score = 0.1 + 0.2;
    state.notes = {{"step", "not the step"}, {"", "\"ä\"\n"}};
    return state;
}

}  // namespace

TEST_CASE_TEMPLATE("everything comes back, bit for bit", T, float, double) {
    const TemporaryFolder folder;
    Run<T> run(T(1));
    run.momentum = {T(-0.0), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::infinity(), T(1), T(2),
                    T(3)};
    const CheckpointState state = some_state();
    write_checkpoint(folder / "run", run.parameters(), run.optimizer(), state);
    CHECK(folder.files() == 1);

    Run<T> other(T(50));
    const CheckpointState read = read_checkpoint(folder / "run", other.parameters(), other.optimizer(), configuration);
    CHECK(other.everything() == run.everything());
    CHECK(std::signbit(other.momentum[0]));
    for (const CheckpointState& each : {read, read_checkpoint_state(folder / "run")}) {
        CHECK(each.configuration == state.configuration);
        CHECK(each.step == state.step);
        CHECK(each.epoch == 2);
        CHECK(each.position == 3);
        CHECK(each.seed == 4);
        CHECK(each.updates == 5);
        CHECK(each.best_score == 0.1 + 0.2);
        CHECK(each.notes == state.notes);
    }

    Run<T> third(T(50));
    read_parameters(folder / "run", third.parameters());
    CHECK(third.model.weight == run.model.weight);
    CHECK(third.momentum == Run<T>(T(50)).momentum);
}

TEST_CASE("scores of every kind come back") {
    const TemporaryFolder folder;
    const std::vector<NamedTensor<float>> none;
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double score : {-0.0, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(),
                               infinity, -infinity, 1.0 / 3.0, -1e23}) {
        CheckpointState state;
        state.best_score = score;
        write_checkpoint(folder / "run", none, none, state);
        CHECK(std::bit_cast<std::uint64_t>(read_checkpoint_state(folder / "run").best_score) ==
              std::bit_cast<std::uint64_t>(score));
    }
    write_checkpoint(folder / "run", none, none, CheckpointState());
    CHECK(std::isnan(read_checkpoint_state(folder / "run").best_score));
}

TEST_CASE("a PyTorch state dict in half precision is read into a model") {
    const auto path = std::filesystem::path(NORMPLACE_GOLDEN_DIR) / "linear.safetensors";
    Linear<double> linear(3, 2);
    read_parameters(path, named_parameters(linear));
    for (std::size_t i = 0; i < 6; ++i) CHECK(linear.weight.data()[i] == static_cast<double>(i) / 8.0);
    CHECK(linear.bias[0] == -1.5);
    CHECK(linear.bias[1] == 1024.0);
    CHECK_THROWS_WITH_AS(
        read_checkpoint_state(path),
        ("checkpoint '" + path.string() +
         "': its metadata has no configuration, so a run cannot go on from it; its parameters alone may be readable")
            .c_str(),
        std::runtime_error);
}

TEST_CASE("a checkpoint that does not fit is refused, and nothing is changed") {
    const TemporaryFolder folder;
    const auto path = folder / "run";
    const auto refused = [&](auto& run, const std::string& expected, const std::string& sentence) {
        const auto before = run.everything();
        CHECK_THROWS_WITH_AS(read_checkpoint(path, run.parameters(), run.optimizer(), expected),
                             ("checkpoint '" + path.string() + "': " + sentence).c_str(), std::runtime_error);
        CHECK(run.everything() == before);
    };
    const auto parameters_refused = [&](auto& run, const std::string& sentence) {
        const auto before = run.everything();
        CHECK_THROWS_WITH_AS(read_parameters(path, run.parameters()),
                             ("checkpoint '" + path.string() + "': " + sentence).c_str(), std::runtime_error);
        CHECK(run.everything() == before);
    };
    Run<float> stored(1.0f), run(50.0f);
    const std::vector<NamedTensor<float>> none;

    write_checkpoint(path, stored.parameters(), stored.optimizer(), some_state());
    refused(run, R"({"width": 4, "placement": "pre-ln", "heads": 2})",
            "its heads is not given, this run's is 2; its width is 3, this run's is 4");
    refused(run, "width 3", "its configuration is '" + configuration + "', this run's is 'width 3'");
    Run<double> precise(50.0);
    refused(precise, configuration, "weight has type F32, the model's is F64");
    CHECK_NOTHROW(read_parameters(path, precise.parameters()));
    CHECK(precise.model.weight(1, 2) == 6.0);
    // The same configuration in another spelling
    CHECK_NOTHROW(read_checkpoint(path, run.parameters(), run.optimizer(), R"({"placement":"pre-ln","width":3})"));

    // Another shape, of the tensor that is read last
    Run<float> wider = run;
    wider.model.bias = Vector<float>::from_shape({7});
    wider.model.bias.fill(0.0f);
    refused(wider, configuration, "bias has shape (2), the model's is (7)");
    parameters_refused(wider, "bias has shape (2), the model's is (7)");

    write_checkpoint(path, std::vector{stored.parameters()[0]}, stored.optimizer(), some_state());
    refused(run, configuration, "it has no tensor 'bias', which the model has");
    parameters_refused(run, "it has no tensor 'bias', which the model has");
    write_checkpoint(path, stored.parameters(), none, some_state());
    refused(run, configuration, "it has no tensor 'optimizer.momentum.weight', which the optimizer has");

    auto more = stored.parameters();
    more.push_back({"scale", {6}, stored.momentum});
    write_checkpoint(path, more, stored.optimizer(), some_state());
    refused(run, configuration, "it has a tensor 'scale', which the model has not");
    parameters_refused(run, "it has a tensor 'scale', which the model has not");
    more = stored.optimizer();
    more.push_back({"variance", {6}, stored.momentum});
    write_checkpoint(path, stored.parameters(), more, some_state());
    refused(run, configuration, "it has a tensor 'optimizer.variance', which the optimizer has not");

    Run<double> large(1.0);
    write_checkpoint(path, large.parameters(), stored.optimizer(), some_state());
    parameters_refused(run, "weight has type F64, the model's is F32");
}

TEST_CASE("a state that is no state is refused") {
    const TemporaryFolder folder;
    std::map<std::string, std::string> metadata = detail::metadata_of(some_state());
    const auto refused = [&](const std::string& key, const std::string& value, const std::string& sentence) {
        auto damaged = metadata;
        damaged[key] = value;
        write_safetensors(folder / "run", std::vector<StoredTensor>{}, damaged);
        CHECK_THROWS_WITH_AS(read_checkpoint_state(folder / "run"),
                             ("checkpoint '" + (folder / "run").string() + "': " + sentence).c_str(),
                             std::runtime_error);
    };
    for (const std::string value : {"", "-1", "1.5", " 1", "1 ", "18446744073709551616"})
        refused("step", value, "its step is '" + value + "', which is no such number");
    for (const std::string value : {"", "best", "1e999", "0.5x"})
        refused("best_score", value, "its best_score is '" + value + "', which is no such number");
    metadata.erase("seed");
    refused("step", "1",
            "its metadata has no seed, so a run cannot go on from it; its parameters alone may be readable");
}

TEST_CASE("a checkpoint that cannot be written leaves the one before") {
    const TemporaryFolder folder;
    Run<float> run(1.0f);
    write_checkpoint(folder / "run", run.parameters(), run.optimizer(), some_state());
    const std::string before = content_of(folder / "run");
    {
        const FileSizeLimit limit(before.size() - 1);
        CHECK_THROWS_WITH_AS(write_checkpoint(folder / "run", run.parameters(), run.optimizer(), some_state()),
                             ("'" + (folder / "run").string() + "' could not be written: File too large").c_str(),
                             std::runtime_error);
    }
    auto parameters = run.parameters();
    parameters[0].name = "optimizer.weight";
    CHECK_THROWS_WITH_AS(write_checkpoint(folder / "run", parameters, run.optimizer(), some_state()),
                         "write_checkpoint: the parameter 'optimizer.weight' would be taken for the optimizer's",
                         std::invalid_argument);
    CHECK(content_of(folder / "run") == before);
    CHECK(folder.files() == 1);
}
