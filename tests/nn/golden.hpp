// SPDX-License-Identifier: BSD-3-Clause
//
// A golden file (tests/golden/*.json, which tests/golden/generate.py writes): a model's tensors as PyTorch has them, by
// the library's names, so the names are tested as well.
#pragma once

#include <doctest/doctest.h>

#include <normplace/nn/parameter_list.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace normplace::test {

// Relative to the largest entry of the reference tensor.
template <class T>
inline constexpr double tolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-10;

/// A tensor of a file, or of a model: its entries in row-major order. What follows is written for these, and not for
/// the many types that models and tensors have, because it would be compiled for each.
struct Reference {
    std::vector<std::size_t> shape;
    std::vector<double> data;
};
template <class T>
struct View {
    std::vector<std::size_t> shape;
    T* data;
};
template <class Tensor>
auto view(Tensor& tensor) {
    return View<typename Tensor::value_type>{{tensor.shape().begin(), tensor.shape().end()}, tensor.data()};
}

/// The parameters of a model and their gradients, set to 0.
template <class T, class Model, class Gradients>
ParameterList<T> golden_parameters(Model& model, Gradients& gradients) {
    zero_gradients(model, gradients);
    return parameter_list(model, gradients);
}

class Golden {
public:
    explicit Golden(const std::string& name) {
        std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / (name + ".json"));
        REQUIRE(file.good());
        const auto json = nlohmann::json::parse(file);
        config = json.at("config");
        for (const auto& [tensor, entry] : json.at("tensors").items())
            tensors_[tensor] = {entry.at("shape").get<std::vector<std::size_t>>(),
                                entry.at("data").get<std::vector<double>>()};
    }

    nlohmann::json config;

    template <class T>
    Activations<T> activations(const std::string& name) {
        const Reference& reference = read(name);
        REQUIRE(reference.shape.size() == 3);
        Activations<T> tensor({reference.shape[0], reference.shape[1], reference.shape[2]});
        fill(name, view(tensor));
        return tensor;
    }

    /// Every parameter from the file, which must have it in the shape that the model gave it.
    template <class T>
    void fill(const ParameterList<T>& parameters) {
        for (const auto& [name, shape, value, gradient] : parameters) fill(name, View<T>{shape, value.data()});
    }
    template <class T>
    void check_gradients(const ParameterList<T>& parameters) {
        for (const auto& [name, shape, value, gradient] : parameters)
            check("grad." + name, View<T>{shape, gradient.data()});
    }

    template <class T>
    void check(const std::string& name, const View<T>& actual) {
        const Reference& expected = read(name);
        REQUIRE_MESSAGE(actual.shape == expected.shape, name);
        const double allowed = tolerance<T> * scale(name);
        for (std::size_t i = 0; i < expected.data.size(); ++i) {
            const double ours = static_cast<double>(actual.data[i]), theirs = expected.data[i];
            if (std::abs(ours - theirs) <= allowed) continue;  // NaN is not close to anything
            FAIL_CHECK(name << "[" << i << "] is " << ours << ", PyTorch has " << theirs << ", allowed difference "
                            << allowed);
            break;
        }
    }

    /// No tensor of the file was overlooked: a parameter that the library does not know would be.
    void check_all_read() const {
        for (const auto& tensor : tensors_) CHECK_MESSAGE(read_.count(tensor.first) == 1, tensor.first);
    }

private:
    const Reference& read(const std::string& name) {
        REQUIRE_MESSAGE(tensors_.count(name) == 1, name);
        read_.insert(name);
        return tensors_.at(name);
    }
    template <class T>
    void fill(const std::string& name, const View<T>& tensor) {
        const Reference& reference = read(name);
        REQUIRE_MESSAGE(tensor.shape == reference.shape, name);
        for (std::size_t i = 0; i < reference.data.size(); ++i) tensor.data[i] = static_cast<T>(reference.data[i]);
    }

    /// The largest entry. What is added to every key moves all scores of a row alike and the softmax does not see it:
    /// its gradient is rounding about 0, and its size that of what multiplies there.
    double scale(std::string name) const {
        if (name.ends_with("key_norm.bias")) name.replace(name.size() - 4, 4, "gain");
        if (name.ends_with("key.bias") && !tensors_.count(name.substr(0, name.size() - 8) + "key_norm.bias"))
            name.replace(name.size() - 4, 4, "weight");
        double largest = 0.0;
        for (const double entry : tensors_.at(name).data) largest = std::max(largest, std::abs(entry));
        return largest;
    }

    std::map<std::string, Reference> tensors_;
    std::set<std::string> read_;
};

/// (B, S) from nested lists.
template <class Table>
Table table(const nlohmann::json& rows) {
    Table result;
    if (rows.is_null()) return result;
    result.resize({rows.size(), rows[0].size()});
    auto* entry = result.data();
    for (const auto& row : rows)
        for (const auto& value : row) *entry++ = value;
    return result;
}

}  // namespace normplace::test
